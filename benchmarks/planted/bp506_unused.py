"""Faults and right twins for BP506: outputs whose gradient is dropped are marked."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, normal, twin
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# ----------------------------------------------------------------------------- faults


class _Attention(Function):
    @staticmethod
    def forward(ctx, scores, v):
        total = torch.logsumexp(scores, -1)
        chances = (scores - total[:, None]).exp()
        ctx.save_for_backward(chances, v)
        return chances @ v, total

    @staticmethod
    @once_differentiable
    def backward(ctx, g, _):
        chances, v = ctx.saved_tensors
        of_chances = g @ v.mT
        centred = of_chances - (of_chances * chances).sum(-1, keepdim=True)
        return chances * centred, chances.mT @ g


@fault(normal(4, 6), normal(6, 3))
class LogSumDropped(_Attention):
    """The normaliser is returned "for the record", and its gradient dropped."""


class _Cell(Function):
    @staticmethod
    def forward(ctx, x, memory):
        new = torch.tanh(x) + 0.9 * memory
        ctx.save_for_backward(torch.tanh(x), torch.tanh(new))
        return torch.tanh(new), new


@fault(normal(3, 5, dtype=FLOAT32), normal(3, 5, dtype=FLOAT32))
class MemoryDropped(_Cell):
    """The next step's gradient arrives through the memory, and is thrown away."""

    @staticmethod
    def backward(ctx, g, of_memory):
        gate, y = ctx.saved_tensors
        of_new = g * (1 - y * y)
        return of_new * (1 - gate * gate), 0.9 * of_new


@fault(normal(9))
class NoneNotExpected(Function):
    """Cotangents are not materialised, and one of them is None."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, of_sine, of_cosine):
        (x,) = ctx.saved_tensors
        return of_sine * x.cos() - of_cosine * x.sin()


@fault(normal(8))
class UnusedMeansNothing(Function):
    """Without a cotangent for the first output there is said to be no gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x * 2, x * x

    @staticmethod
    def backward(ctx, of_double, of_square):
        (x,) = ctx.saved_tensors
        if of_double is None:
            return None
        return 2 * of_double + (0 if of_square is None else 2 * x * of_square)


@fault(normal(5, 6))
class Standardised(Function):
    """Mean and spread come along, and only one of the three gets a gradient."""

    @staticmethod
    def forward(ctx, x):
        mean = x.mean(-1, keepdim=True)
        rstd = x.var(-1, correction=0, keepdim=True).rsqrt()
        y = (x - mean) * rstd
        ctx.save_for_backward(y, rstd)
        return y, mean, rstd

    @staticmethod
    def backward(ctx, g, *_):
        y, rstd = ctx.saved_tensors
        along = (g * y).mean(-1, keepdim=True)
        return rstd * (g - g.mean(-1, keepdim=True) - y * along)


# ------------------------------------------------------------------------------ twins


@twin(normal(4, 6), normal(6, 3))
class LogSumMarked(_Attention):
    """Dropped, and marked."""

    @staticmethod
    def forward(ctx, scores, v):
        y, total = _Attention.forward(ctx, scores, v)
        ctx.mark_non_differentiable(total)
        return y, total


@twin(normal(3, 5, dtype=FLOAT32), normal(3, 5, dtype=FLOAT32))
class MemoryKept(_Cell):
    """Both gradients are added."""

    @staticmethod
    @once_differentiable
    def backward(ctx, g, of_memory):
        gate, y = ctx.saved_tensors
        of_new = g * (1 - y * y) + of_memory
        return of_new * (1 - gate * gate), 0.9 * of_new


@twin(normal(9))
class NoneExpected(Function):
    """Cotangents are not materialised, and None is taken for zero."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, of_sine, of_cosine):
        (x,) = ctx.saved_tensors
        of_x = None
        if of_sine is not None:
            of_x = of_sine * x.cos()
        if of_cosine is not None:
            part = -of_cosine * x.sin()
            of_x = part if of_x is None else of_x + part
        return of_x


@twin(normal(6, 8))
class BestOfEach(Function):
    """Indices, whose type says that they have no gradient."""

    @staticmethod
    def forward(ctx, x):
        best, at = x.min(-1)
        ctx.save_for_backward(at)
        ctx.width = x.shape[-1]
        return best, at

    @staticmethod
    def backward(ctx, g, _):
        (at,) = ctx.saved_tensors
        of_x = g.new_zeros(len(g), ctx.width)
        return of_x.scatter(-1, at[:, None], g[:, None])


@twin(normal(10))
class WithCount(Function):
    """A floating output that is constant where it is: its gradient is zero."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp(), (x > 0).to(x).sum()

    @staticmethod
    def backward(ctx, g, _):
        (x,) = ctx.saved_tensors
        return g * x.exp()


@twin(normal(7))
class SumAndCopy(Function):
    """Three outputs, each with a term of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.sum(), x.clone(), x.mean()

    @staticmethod
    def backward(ctx, of_sum, of_copy, of_mean):
        return of_copy + (of_sum + of_mean / ctx.shape[0]).expand(ctx.shape)
