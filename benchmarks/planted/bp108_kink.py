"""Kinks that BP108 has to note, and smooth twins on which it has to be silent."""

from __future__ import annotations

import torch
from planted.member import (
    FLOAT32,
    drawn,
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
from torch.autograd.function import once_differentiable

# ------------------------------------------------------------------- kinks, to be noted


@fault(values(-1.0, 0.0, 0.7, 0.0, 2.0))
class RectifiedAtZero(Function):
    """Picks the left derivative."""

    @staticmethod
    def forward(ctx, x):
        y = x.clamp(min=0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (y > 0)


@fault(values(0.5, 1.0, -1.0, 3.0, dtype=FLOAT32))
def clamped_at_its_bounds(x):
    """Two of four elements lie on a bound."""
    return x.clamp(-1, 1)


@fault(values(2.0, 0.0, -1.0, 4.0), fixed(values(2.0, 1.0, -1.0, 3.0)))
def absolute_error(x, target):
    """Two predictions that hit the target."""
    return (x - target).abs().mean()


class _Hinge(Function):
    @staticmethod
    def forward(ctx, score, label):
        margin = 1 - score * label
        ctx.save_for_backward(margin, label)
        return margin.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        margin, label = ctx.saved_tensors
        return -g * label * (margin >= 0), None


@fault(values(1.0, -1.0, 0.3, 2.0), fixed(values(1.0, -1.0, 1.0, -1.0)))
class HingeOnItsMargin(_Hinge):
    """Picks the steep side."""


@fault(integers(4, 6, low=0, high=3))
def largest_of_integers(x):
    """Ties within rows."""
    return x.max(-1).values


# ------------------------------------------------------------- no kink, to be kept quiet


@twin(values(-1.0, 0.0, 0.5, 0.0))
def square_with_a_sign(x):
    """Looks like a corner, and has a derivative at zero."""
    return x * x.abs()


@twin(values(0.0, 0.5, -0.5, 2.0, -1.0, 1.0), fixed(values(*[0.0] * 6)))
def huber_at_its_bound(x, target):
    """Two branches that meet with one slope."""
    return nn.functional.huber_loss(x, target, reduction="none", delta=0.5)


@twin(values(-2.0, 0.0, 1.0, 0.0, dtype=FLOAT32))
def exponential_unit_at_zero(x):
    """Slope one from both sides."""
    return nn.functional.elu(x)


@twin(drawn(lambda r: torch.randn(20, generator=r).double().sign()))
def rectified_away_from_zero(x):
    """A kink that no input lies on."""
    return torch.relu(x)


@twin(uniform(15, low=1e-3, high=1e-2))
def absolute_value_near_zero(x):
    """Inputs that are small, and on one side."""
    return x.abs()


@twin(normal(5, 7))
class SteepSoftmax(Function):
    """A soft maximum that bends sharply."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(20 * x, -1)
        ctx.save_for_backward(x, y)
        return (x * y).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        mean = (x * y).sum(-1, keepdim=True)
        return g[:, None] * y * (1 + 20 * (x - mean))


@twin(values(0.3, -0.2, 1.4, 0.9), fixed(values(1.0, -1.0, 1.0, -1.0)))
class HingeOffItsMargin(_Hinge):
    """Some margins met and some not, none of them exactly."""
