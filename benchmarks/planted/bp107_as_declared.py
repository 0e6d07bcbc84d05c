"""Faults and right twins for BP107: a surrogate's backward is what was declared."""

from __future__ import annotations

import torch
from planted.member import (
    BFLOAT16,
    FLOAT32,
    fault,
    fixed,
    integers,
    normal,
    twin,
    uniform,
    values,
)
from torch import nn
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


def within_bounds(g, x):
    """Straight through from -1 to 1, both included."""
    return (torch.where((x >= -1) & (x <= 1), g, 0.0),)


class _Sign(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0).to(x)


@fault(integers(30), expect_backward=within_bounds)
class BoundsLeftOut(_Sign):
    """Wrong at the bounds only: < for <=."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() < 1)


@fault(values(-3e4, -1.5, -0.7, 0.2, 1.1, 40.0), expect_backward=within_bounds)
class OneSided(_Sign):
    """Nothing is stopped below."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x <= 1)


def learned_step(g, x, step):
    """Gradient of a learned step size, scaled by the number of elements."""
    level = x / step
    inside = (level > -8) & (level < 7)
    of_step = torch.where(inside, level.round() - level, level.round().clamp(-8, 7))
    scale = (x.numel() * 7) ** -0.5
    return g * inside, ((g * of_step).sum() * scale).reshape(step.shape)


@fault(
    normal(60, dtype=FLOAT32),
    values(0.3, dtype=FLOAT32),
    expect_backward=learned_step,
)
class LearnedStep(Function):
    """The scale of the step size's gradient has the wrong number of levels."""

    @staticmethod
    def forward(ctx, x, step):
        ctx.save_for_backward(x, step)
        return (x / step).round().clamp(-8, 7) * step

    @staticmethod
    def backward(ctx, g):
        x, step = ctx.saved_tensors
        level = x / step
        inside = (level > -8) & (level < 7)
        slope = torch.where(inside, level.round() - level, level.round().clamp(-8, 7))
        of_step = (g * slope).sum().reshape(step.shape)
        return g * inside, of_step * (x.numel() * 8) ** -0.5


def fast_sigmoid(g, membrane, threshold):
    """The surrogate of a spiking neuron, of slope 25."""
    return g / (1 + 25 * (membrane - threshold).abs()) ** 2, None


@fault(normal(40), 1.0, expect_backward=fast_sigmoid)
class SpikeAroundZero(Function):
    """The bump stands at zero and not at the threshold."""

    @staticmethod
    def forward(ctx, membrane, threshold):
        ctx.save_for_backward(membrane)
        return (membrane > threshold).to(membrane)

    @staticmethod
    def backward(ctx, g):
        (membrane,) = ctx.saved_tensors
        return g / (1 + 25 * membrane.abs()) ** 2, None


@fault(normal(8, 6), expect=lambda logits: torch.softmax(logits / 0.5, -1))
class ChoiceAtTemperature(Function):
    """The temperature is missing in front of the softmax's derivative."""

    @staticmethod
    def forward(ctx, logits):
        ctx.save_for_backward(torch.softmax(logits / 0.5, -1))
        return nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits)

    @staticmethod
    def backward(ctx, g):
        (soft,) = ctx.saved_tensors
        return soft * (g - (g * soft).sum(-1, keepdim=True))


@fault(
    values(-3.0, -0.5, 0.0, 0.5, 300.0, -250.0, dtype=FLOAT32),
    expect_backward=lambda g, x: (g / torch.cosh(x.clamp(-40, 40)) ** 2,),
)
class OverflowingBump(_Sign):
    """Right but for extreme inputs, where it is inf / inf."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        up = (2 * x).exp()
        return g * 4 * up / (1 + up) ** 2


# ------------------------------------------------------------------------------ twins


@twin(integers(30), expect_backward=within_bounds)
class ByClamping(_Sign):
    """The same mask, bounds included, found in another way."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.masked_fill(x.clamp(-1, 1) != x, 0.0)


@twin(normal(20, dtype=FLOAT32), 0.3, expect_backward=lambda g, x, k: (-k * g, None))
class Reversed(Function):
    """The gradient of an adversary, which is nobody's derivative."""

    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.neg() * ctx.strength, None


@twin(
    uniform(30, low=-4, high=4, dtype=FLOAT32),
    expect_backward=lambda g, x: (g * torch.sigmoid(x) * (1 - torch.sigmoid(x)),),
)
class SameInOtherWords(_Sign):
    """Equal to the declaration on paper, and in float32 up to rounding."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g / (4 * torch.cosh(x / 2) ** 2)


@twin(
    normal(64, dtype=BFLOAT16),
    fixed(values(0.5, dtype=BFLOAT16)),
    expect_backward=lambda g, x, step: (g, None),
)
class Quantised(Function):
    """Straight through in sixteen bits."""

    @staticmethod
    def forward(ctx, x, step):
        return (x / step).round() * step

    @staticmethod
    def backward(ctx, g):
        return g.clone(), None


@twin(normal(6, 9), expect=lambda x: torch.softmax(3 * x, -1))
class OwnSoftMax(Function):
    """The derivative of the declared function, worked out by hand."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        best = x.max(-1, keepdim=True).values
        return (x == best).to(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        shifted = (3 * (x - x.max(-1, keepdim=True).values)).exp()
        y = shifted / shifted.sum(-1, keepdim=True)
        return 3 * (y * g - y * (y * g).sum(-1, keepdim=True))


@twin(
    normal(12),
    normal(12),
    expect_backward=lambda g, x, y: (g, torch.zeros_like(y)),
)
class StopsTheSecond(Function):
    """One input gets no gradient on purpose: None stands for the zeros."""

    @staticmethod
    def forward(ctx, x, y):
        return x + y

    @staticmethod
    def backward(ctx, g):
        return g, None
