"""Faults and right twins for BP201: forward leaves its inputs unchanged."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, fixed, indices, normal, twin, uniform
from torch import Tensor, nn
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


class _Centred(Function):
    @staticmethod
    def backward(ctx, g):
        return g - g.mean(-1, keepdim=True)


@fault(normal(5, 8))
class CentredInNumpy(_Centred):
    """An array that shares the input's memory is changed in place."""

    @staticmethod
    def forward(ctx, x):
        array = x.detach().numpy()
        array -= array.mean(-1, keepdims=True)
        return torch.from_numpy(array.copy())


@fault(normal(6, 4, dtype=FLOAT32))
class CentredContiguous(_Centred):
    """contiguous() copies only what is not contiguous."""

    @staticmethod
    def forward(ctx, x):
        y = x.contiguous()
        y.sub_(y.mean(-1, keepdim=True))
        return y.clone()


@fault(normal(7, 3), indices(12, below=7))
class SortedLookup(Function):
    """The indices, which need no gradient, are sorted where they lie."""

    @staticmethod
    def forward(ctx, table, rows):
        torch.sort(rows, out=(rows, torch.empty_like(rows)))
        ctx.save_for_backward(rows.clone())
        ctx.rows = len(table)
        return table[rows]

    @staticmethod
    def backward(ctx, g):
        (rows,) = ctx.saved_tensors
        return g.new_zeros(ctx.rows, g.shape[1]).index_add(0, rows, g), None


@fault(normal(5, 4), normal(3, 4))
class NormalisedWeight(Function):
    """The weight is normalised in place, through `.data`, at each call."""

    @staticmethod
    def forward(ctx, x, w):
        w.data.div_(w.data.norm(dim=1, keepdim=True) / 2)
        ctx.save_for_backward(x, w)
        return x @ w.mT

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, g.mT @ x


@fault([normal(4), normal(3, 2), normal(5)])
def scaled_together(tensors):
    """A list of tensors is scaled with one kernel, in place."""
    return torch.cat([t.reshape(-1) for t in _ScaledList.apply(*tensors)])


class _ScaledList(Function):
    @staticmethod
    def forward(ctx, *tensors):
        torch._foreach_mul_([t.detach() for t in tensors], 0.5)
        return tuple(t.clone() for t in tensors)

    @staticmethod
    def backward(ctx, *gs):
        return tuple(0.5 * g for g in gs)


@fault(normal(8, 6), fixed(uniform(8, 6)))
class MaskedScores(Function):
    """The mask, a plain argument, is turned into a bias where it lies."""

    @staticmethod
    def forward(ctx, scores, mask):
        bias = mask.sub_(1).mul_(4)
        y = torch.softmax(scores + bias, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(-1, keepdim=True)), None


# ------------------------------------------------------------------------------ twins


@twin(normal(12, dtype=FLOAT32))
def rectified_in_place(x):
    """In place and marked, on a tensor that is its own."""
    return _RectifiedInPlace.apply(x * 2)


class _RectifiedInPlace(Function):
    @staticmethod
    def forward(ctx, x):
        x.clamp_(min=0)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (y > 0)


@twin(normal(12))
class MarkedDirty(Function):
    """In place on the caller's tensor, marked and returned."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(3).add_(1)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return 3 * g


@twin(normal(5, 8))
class CentredCopy(_Centred):
    """In place on a copy of the array."""

    @staticmethod
    def forward(ctx, x):
        array = x.detach().numpy().copy()
        array -= array.mean(-1, keepdims=True)
        return torch.from_numpy(array)


@twin(normal(9, 4))
class RunningNorm(nn.Module):
    """A module that updates buffers of its own while it trains."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(4, dtype=torch.double))
        self.register_buffer("mean", torch.zeros(4, dtype=torch.double))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        mean = x.mean(0)
        with torch.no_grad():
            self.mean.lerp_(mean, 0.1)
            self.calls += 1
        return (x - mean) * self.gain


@twin(normal(7, 3), indices(12, below=7))
class SortedCopy(Function):
    """Indices sorted into new memory."""

    @staticmethod
    def forward(ctx, table, rows):
        ordered, _ = rows.sort()
        ctx.save_for_backward(ordered)
        ctx.rows = len(table)
        return table[ordered]

    @staticmethod
    def backward(ctx, g):
        (rows,) = ctx.saved_tensors
        return g.new_zeros(ctx.rows, g.shape[1]).index_add(0, rows, g), None


def _accumulate(total: Tensor, x: Tensor) -> Tensor:
    total += x.square()
    return total


@twin([normal(6), normal(6), normal(6)])
def accumulated(tensors):
    """The sum grows in place, in memory that it made itself."""
    total = torch.zeros_like(tensors[0])
    for tensor in tensors:
        total = _accumulate(total, tensor)
    return total


@twin(uniform(4, 4, low=0.5, high=1.5))
class OutOfPlaceByOut(Function):
    """`out=` into memory of its own, and the arguments in all positions."""

    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        torch.log(x, out=y)
        torch.mul(y, x, out=y)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.log() + 1)
