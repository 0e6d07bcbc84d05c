"""Faults and right twins for BP106: a piecewise constant op declares its gradient."""

from __future__ import annotations

import torch
from planted.member import (
    BFLOAT16,
    FLOAT32,
    fault,
    fixed,
    normal,
    twin,
    uniform,
    values,
)
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# ----------------------------------------------------------------------------- faults


class _FakeQuantise(Function):
    """Eight-bit levels; the gradient passes where nothing saturates."""

    @staticmethod
    def forward(ctx, x, step):
        ctx.save_for_backward(x, step)
        return (x / step).round().clamp(-128, 127) * step

    @staticmethod
    def backward(ctx, g):
        x, step = ctx.saved_tensors
        level = x / step
        return g * ((level >= -128) & (level <= 127)), None


@fault(normal(40, dtype=FLOAT32), fixed(values(0.25, dtype=FLOAT32)))
class FakeQuantise(_FakeQuantise):
    """The usual one of quantisation-aware training, undeclared."""


@fault(normal(30))
class Spike(Function):
    """A neuron that fires above its threshold; backward is a smooth bump."""

    @staticmethod
    def forward(ctx, membrane):
        ctx.save_for_backward(membrane)
        return (membrane > 0.4).to(membrane.dtype)

    @staticmethod
    def backward(ctx, g):
        (membrane,) = ctx.saved_tensors
        return g / (1 + 10 * (membrane - 0.4).abs()) ** 2


class _HardChoice(Function):
    @staticmethod
    def forward(ctx, logits):
        ctx.save_for_backward(torch.softmax(logits, -1))
        return nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (soft,) = ctx.saved_tensors
        return soft * (g - (g * soft).sum(-1, keepdim=True))


@fault(normal(7, 5))
class HardChoice(_HardChoice):
    """One-hot forward, softmax backward."""


@fault(normal(25))
def rounded_through(x):
    """Straight-through without a Function, by detaching the difference."""
    return x + (x.round() - x).detach()


@fault(normal(64, dtype=BFLOAT16))
class Ternary(Function):
    """Weights of -1, 0 and 1 in sixteen bits, with the gradient of the identity."""

    @staticmethod
    def forward(ctx, w):
        return w.sign() * (w.abs() > 0.5)

    @staticmethod
    def backward(ctx, g):
        return g


@fault(normal(4, 12))
class LargestThree(Function):
    """A mask of the three largest, whose backward lets everything through."""

    @staticmethod
    def forward(ctx, scores):
        at = scores.topk(3, -1).indices
        return torch.zeros_like(scores).scatter_(-1, at, 1.0)

    @staticmethod
    def backward(ctx, g):
        return g


# ------------------------------------------------------------------------------ twins


@twin(
    normal(40, dtype=FLOAT32),
    fixed(values(0.25, dtype=FLOAT32)),
    expect_backward=lambda g, x, step: (g * ((x / step).abs() < 127), None),
)
class DeclaredQuantise(_FakeQuantise):
    """The same, declared."""


@twin(normal(7, 5), expect=lambda logits: torch.softmax(logits, -1))
class DeclaredChoice(_HardChoice):
    """Declared by the soft function whose derivative is meant."""


@twin(normal(30))
class CountAbove(Function):
    """A staircase with its true gradient, zero."""

    @staticmethod
    def forward(ctx, x):
        return (x[:, None] > torch.linspace(-2, 2, 9, dtype=x.dtype)).sum(1).to(x)

    @staticmethod
    def backward(ctx, g):
        return torch.zeros_like(g)


@twin(normal(30))
class LeakyStairs(Function):
    """Stairs on a slope, and backward is the slope."""

    @staticmethod
    def forward(ctx, x):
        return x.floor() + 0.3 * x

    @staticmethod
    def backward(ctx, g):
        return 0.3 * g


@twin(uniform(50, low=-1, high=1))
class SteepSigmoid(Function):
    """Nearly a step, and smooth all the same."""

    @staticmethod
    def forward(ctx, x):
        y = torch.sigmoid(60 * x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * 60 * y * (1 - y)


@twin(uniform(40, low=0, high=1))
class TableLookup(Function):
    """Finds its place by rounding, and interpolates from there."""

    @staticmethod
    def forward(ctx, x):
        table = torch.linspace(0, 1, 17, dtype=x.dtype).square()
        at = (x * 16).floor().clamp(0, 15).long()
        slope = (table[at + 1] - table[at]) * 16
        ctx.save_for_backward(slope)
        return table[at] + slope * (x - at / 16)

    @staticmethod
    def backward(ctx, g):
        (slope,) = ctx.saved_tensors
        return g * slope


@twin(uniform(20, low=-6, high=-2, dtype=FLOAT32))
def relu_where_it_is_off(x):
    """Constant near all of these inputs, with a gradient of zero."""
    return torch.relu(x)
