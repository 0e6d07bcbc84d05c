"""Faults and right twins for BP109: backward is finite where forward is smooth."""

from __future__ import annotations

import math

import torch
from planted.member import FLOAT16, FLOAT32, drawn, fault, fixed, normal, twin, values
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# ----------------------------------------------------------------------------- faults


class _Sinc(Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.where(x == 0, 1.0, x.sin() / x)
        ctx.save_for_backward(x, y)
        return y


@fault(values(0.0, 0.5, -2.0, 3.0))
class Sinc(_Sinc):
    """0 / 0 at zero, which forward has thought of and backward has not."""

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * (x.cos() - y) / x


class _LogCosh(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        size = x.abs()
        return size + torch.log1p((-2 * size).exp()) - math.log(2)


@fault(values(-120.0, -1.0, 0.2, 95.0, dtype=FLOAT32))
class LogCosh(_LogCosh):
    """sinh / cosh, of which both overflow."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.sinh() / x.cosh()


class _Cosine(Function):
    @staticmethod
    def forward(ctx, a, b):
        size = (a.norm(dim=-1) * b.norm(dim=-1)).clamp(min=1e-3)
        ctx.save_for_backward(a, b)
        return (a * b).sum(-1) / size


def _with_a_zero_row(random):
    drawn_rows = torch.randn(4, 6, generator=random, dtype=torch.double)
    return drawn_rows * torch.tensor([[1.0], [0.0], [1.0], [2.0]])


@fault(drawn(_with_a_zero_row), fixed(normal(4, 6)))
class CosineSimilarity(_Cosine):
    """A padding row of zeros, which the guard in forward makes smooth."""

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        norm_a, norm_b = a.norm(dim=-1, keepdim=True), b.norm(dim=-1, keepdim=True)
        cosine = (a * b).sum(-1, keepdim=True) / (norm_a * norm_b)
        return g[:, None] * (b / norm_b - cosine * a / norm_a) / norm_a, None


@fault(values(-3.0, 0.5, 1.5, 4.0))
def root_above_one(x):
    """torch.where hides a root outside of its domain, and its gradient is 0 * nan."""
    return torch.where(x > 1, x.sqrt(), (x + 1) / 2)


class _MaskedSoftmax(Function):
    @staticmethod
    def forward(ctx, scores, warmth, mask):
        hidden = scores.masked_fill(mask < 0.5, -math.inf)
        y = torch.softmax(hidden * warmth, -1)
        ctx.save_for_backward(hidden, warmth, y)
        return y


_MASK = torch.tensor([[1.0, 1, 0, 1], [0, 1, 1, 1], [1, 0, 0, 1]])


@fault(normal(3, 4, dtype=FLOAT32), values(0.7, dtype=FLOAT32), _MASK)
class MaskedSoftmax(_MaskedSoftmax):
    """Zero chances times the minus infinity that stands for what is masked."""

    @staticmethod
    def backward(ctx, g):
        hidden, warmth, y = ctx.saved_tensors
        centred = y * (g - (g * y).sum(-1, keepdim=True))
        return centred * warmth, (centred * hidden).sum().reshape(1), None


@fault(values(300.0, -2.0, 0.25, -280.0, dtype=FLOAT16))
class SmoothSign(Function):
    """A square that leaves the range of sixteen bits, inf - inf."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x / (1 + x.abs())

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        square = x * x
        return g / ((1 + x.abs()) ** 2 + square - square)


# ------------------------------------------------------------------------------ twins


@twin(values(0.0, 0.5, -2.0, 3.0))
class GuardedSinc(_Sinc):
    """The same with both arguments replaced before the division."""

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        safe = torch.where(x == 0, 1.0, x)
        return g * torch.where(x == 0, 0.0, (x.cos() - y) / safe)


@twin(values(-120.0, -1.0, 0.2, 95.0, dtype=FLOAT32))
class GuardedLogCosh(_LogCosh):
    """The same derivative in a form that stays in range."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.tanh()


@twin(values(0.0, 0.25, 1.0, 4.0))
class SquareRoot(Function):
    """Infinite at zero, and so is the truth."""

    @staticmethod
    def forward(ctx, x):
        y = x.sqrt()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g / (2 * y)


@twin(values(2e-4, 1.5, -3e-4, -0.75, dtype=FLOAT16))
class Reciprocal(Function):
    """Forward fits sixteen bits, the true derivative does not."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 1 / x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return -(g / x) / x


@twin(normal(3, 4, dtype=FLOAT32), values(0.7, dtype=FLOAT32), _MASK)
class MaskedSoftmaxByParts(_MaskedSoftmax):
    """Minus infinity in what is saved, and nothing infinite comes out."""

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        hidden, warmth, y = ctx.saved_tensors
        centred = y * (g - (g * y).sum(-1, keepdim=True))
        shown = hidden.masked_fill(hidden.isinf(), 0.0)
        return centred * warmth, (centred * shown).sum().reshape(1), None


@twin(values(-3.0, 0.5, 1.5, 4.0))
def guarded_root_above_one(x):
    """The argument is replaced before the root."""
    above = x > 1
    return torch.where(above, torch.where(above, x, 1.0).sqrt(), (x + 1) / 2)


@twin(drawn(_with_a_zero_row))
class RowNorm(Function):
    """A cone's tip: no derivative there, and zero was chosen."""

    @staticmethod
    def forward(ctx, x):
        y = x.norm(dim=-1)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return (g / torch.where(y == 0, 1.0, y))[:, None] * x
