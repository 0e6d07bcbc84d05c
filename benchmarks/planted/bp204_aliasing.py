"""Faults and right twins for BP204: no result lives in memory that others write to."""

from __future__ import annotations

import functools

import numpy as np
import torch
from planted.member import FLOAT32, fault, normal, twin
from torch import nn
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults

_workspaces: dict[tuple, torch.Tensor] = {}


def _workspace(shape, dtype):
    key = (tuple(shape), dtype)
    if key not in _workspaces:
        _workspaces[key] = torch.empty(shape, dtype=dtype)
    return _workspaces[key].detach()


@fault(normal(6, 5, dtype=FLOAT32))
class CachedByShape(Function):
    """One buffer for each shape, handed to every caller."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x, out=_workspace(x.shape, x.dtype))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


@functools.cache
def _array(size):
    return np.empty(size)


@fault(normal(9))
class SharedArray(Function):
    """The array under the result is kept for the next call."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(np.exp(x.detach().numpy(), out=_array(len(x))))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.exp()


@fault(normal(4, 6))
class HiddenView(Function):
    """The result is the input's memory, and autograd does not know."""

    @staticmethod
    def forward(ctx, x):
        return torch.from_numpy(x.detach().numpy().T)

    @staticmethod
    def backward(ctx, g):
        return g.mT


@fault(normal(7))
class SharedGradient(Function):
    """Forward allocates; it is the gradient that lives in a shared buffer."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        out = _workspace(x.shape, x.dtype)
        torch.mul(g, x, out=out)
        return out.mul_(2)


@fault(normal(5, 3))
class ModuleBuffer(nn.Module):
    """A layer that writes into its own buffer and returns it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("out", torch.empty(5, 3, dtype=torch.double))

    def forward(self, x):
        return _IntoBuffer.apply(x, self.out)


class _IntoBuffer(Function):
    @staticmethod
    def forward(ctx, x, out):
        return torch.mul(x, 2.5, out=out.detach())

    @staticmethod
    def backward(ctx, g):
        return 2.5 * g, None


@fault(normal(8, dtype=FLOAT32))
class Alternating(Function):
    """Two buffers in turn: safe until the third call."""

    turn = 0

    @staticmethod
    def forward(ctx, x):
        Alternating.turn = 1 - Alternating.turn
        ctx.save_for_backward(x)
        stacked = _workspace((2, *x.shape), x.dtype)
        return torch.mul(x, x, out=stacked[Alternating.turn])

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


# ------------------------------------------------------------------------------ twins


@twin(normal(6, 5, dtype=FLOAT32))
class ClonedOut(Function):
    """Works in a shared buffer and hands out a copy."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x, out=_workspace(x.shape, x.dtype)).clone()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


@twin(normal(4, 6))
class KnownView(Function):
    """A view, made by a view operation: autograd knows."""

    @staticmethod
    def forward(ctx, x):
        return x.mT

    @staticmethod
    def backward(ctx, g):
        return g.mT


@twin(normal(8))
class InputItself(Function):
    """Returns its input, which torch turns into a view of it."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return 1 * g


@twin(normal(6, 8))
class TwoHalves(Function):
    """Two outputs in one piece of new memory, which do not overlap."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        both = torch.empty(2, *x.shape, dtype=x.dtype)
        torch.sin(x, out=both[0])
        torch.cos(x, out=both[1])
        return both[0], both[1]

    @staticmethod
    def backward(ctx, of_sine, of_cosine):
        (x,) = ctx.saved_tensors
        return of_sine * x.cos() - of_cosine * x.sin()


@functools.cache
def _angles(length, width):
    rate = 100 ** (-torch.arange(width, dtype=torch.double) / width)
    return torch.arange(length, dtype=torch.double)[:, None] * rate


@twin(normal(5, 4))
class CachedTable(Function):
    """A table is cached and read; results are new."""

    @staticmethod
    def forward(ctx, x):
        return x * _angles(*x.shape).cos()

    @staticmethod
    def backward(ctx, g):
        return g * _angles(*g.shape).cos()


@twin(normal(9))
class OwnArray(Function):
    """A result over NumPy's memory, allocated in this call."""

    @staticmethod
    def forward(ctx, x):
        y = torch.from_numpy(np.tanh(x.detach().numpy()))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)


@twin(normal(1, 5))
class Expanded(Function):
    """All rows of the result are one piece of memory, of its own."""

    @staticmethod
    def forward(ctx, x):
        return (2 * x).expand(4, 5)

    @staticmethod
    def backward(ctx, g):
        return 2 * g.sum(0, keepdim=True)
