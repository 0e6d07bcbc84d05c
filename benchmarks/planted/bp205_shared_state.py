"""Faults and right twins for BP205: calls do not share state."""

from __future__ import annotations

import functools
import itertools

import torch
from planted.member import FLOAT32, fault, fixed, normal, twin, uniform
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# ----------------------------------------------------------------------------- faults

_tape: list[torch.Tensor] = []


@fault(normal(9))
class LastInFirstOut(Function):
    """A stack of what is saved: right only if backwards run in reverse order."""

    @staticmethod
    def forward(ctx, x):
        _tape.append(x.detach().clone())
        return x.sinh()

    @staticmethod
    def backward(ctx, g):
        x = _tape[-1] if len(_tape) == 1 else _tape.pop()
        return g * x.cosh()


_last_by_shape: dict[torch.Size, torch.Tensor] = {}


@fault(normal(6, 4, dtype=FLOAT32))
class CachedByShape(Function):
    """A cache of exponentials whose key is the shape alone."""

    @staticmethod
    def forward(ctx, x):
        y = torch.exp(x)
        _last_by_shape[x.shape] = y.detach().clone()
        ctx.key = x.shape
        return y

    @staticmethod
    def backward(ctx, g):
        return g * _last_by_shape[ctx.key]


class _Threshold:
    """Settings that all layers share."""

    value = None


@fault(normal(20))
class AdaptiveShrink(Function):
    """Forward leaves its threshold in a settings object."""

    @staticmethod
    def forward(ctx, x):
        _Threshold.value = x.detach().abs().median()
        ctx.save_for_backward(x)
        return x * (x.abs() > _Threshold.value)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() > _Threshold.value)


@fault(normal(5, 4))
class LayerWithState(nn.Module):
    """A module keeps what backward needs on itself, and is called twice."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3, dtype=torch.double))
        self.seen = None

    def forward(self, x):
        return _Matmul.apply(x, self.weight, self)


class _Matmul(Function):
    @staticmethod
    def forward(ctx, x, w, layer):
        ctx.save_for_backward(w)
        ctx.layer = layer
        layer.seen = x.detach().clone()
        return x @ w

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        return g @ w.mT, ctx.layer.seen.mT @ g, None


_counter = itertools.count()
_steps = {"now": 0}


@fault(normal(12))
class SeededByStep(Function):
    """A mask from the number of the call, and backward takes the latest number."""

    @staticmethod
    def mask(x, step):
        random = torch.Generator().manual_seed(step)
        return (torch.rand(x.shape, generator=random) < 0.5).to(x)

    @staticmethod
    def forward(ctx, x):
        _steps["now"] += 1
        return x * SeededByStep.mask(x, _steps["now"])

    @staticmethod
    def backward(ctx, g):
        return g * SeededByStep.mask(g, _steps["now"])


# ------------------------------------------------------------------------------ twins


@functools.cache
def _causal(length):
    return torch.ones(length, length, dtype=torch.double).tril()


@twin(normal(6, 6))
class CausalMask(Function):
    """A cache whose key is the shape, of what depends on the shape alone."""

    @staticmethod
    def forward(ctx, scores):
        return scores * _causal(len(scores))

    @staticmethod
    def backward(ctx, g):
        return g * _causal(len(g))


@twin(normal(8, dtype=FLOAT32))
class CountsCalls(Function):
    """State on the class that no number depends on."""

    calls = 0

    @staticmethod
    def forward(ctx, x):
        CountsCalls.calls += 1
        ctx.number = CountsCalls.calls
        ctx.save_for_backward(x)
        return x.atan()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        CountsCalls.calls -= 1
        return g / (1 + x * x)


_saved: dict[int, torch.Tensor] = {}


@twin(normal(9))
class KeyOfItsOwn(Function):
    """A global store, with a key for each call."""

    @staticmethod
    def forward(ctx, x):
        ctx.key = next(_counter)
        _saved[ctx.key] = x.detach().clone()
        return x.sinh()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * _saved[ctx.key].cosh()


@twin(uniform(7, low=0.5, high=2))
class SharedScratch(Function):
    """A buffer of the class, always written before it is read."""

    scratch = torch.empty(7, dtype=torch.double)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.log(x, out=SharedScratch.scratch.detach()).clone()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.div(g, x, out=SharedScratch.scratch.detach()).clone()


_memo: dict[bytes, torch.Tensor] = {}


@twin(normal(5))
class CachedByValue(Function):
    """A cache whose key is the whole input."""

    @staticmethod
    def forward(ctx, x):
        key = x.detach().numpy().tobytes()
        if key not in _memo:
            _memo[key] = x.detach().tanh()
        y = _memo[key].clone()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)


@twin(normal(6), fixed(normal(6)))
class CompiledOnce(Function):
    """A kernel that is built by whichever call comes first."""

    kernel = None

    @staticmethod
    def forward(ctx, x, w):
        if CompiledOnce.kernel is None:
            CompiledOnce.kernel = torch.mul
        ctx.save_for_backward(w)
        return CompiledOnce.kernel(x, w)

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        return CompiledOnce.kernel(g, w), None
