"""BP106 and BP107: gradients that are meant to be something else."""

import torch
from torch.autograd import Function

from tests.zoo.member import FINE, guilty, innocent, integers, normal, values


class _Round(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.round(x)

    @staticmethod
    def backward(ctx, g):
        return g.clone()


class _Step(Function):
    """One above zero, else none; backward is a triangle of height one."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (1 - x.abs()).clamp(min=0)


def straight_through(cotangent, x):
    return cotangent


def triangle(cotangent, x):
    return cotangent * (1 - x.abs()).clamp(min=0)


def closed_window(cotangent, x, bound):
    return cotangent * (x.abs() <= bound), None


def hard_tanh(x):
    return x.clamp(-1, 1)


@guilty("BP106", normal(64), dtypes=FINE)
class RoundUndeclared(_Round):
    pass


@guilty("BP106", normal(64), dtypes=FINE)
class StepUndeclared(_Step):
    pass


@guilty("BP106", normal(64), dtypes=FINE)
class SignUndeclared(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.sign(x)

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-1e6, 1e6)


@innocent(normal(64), expect_backward=straight_through)
class RoundDeclared(_Round):
    pass


@innocent(normal(64), expect_backward=triangle)
class StepDeclared(_Step):
    pass


@innocent(integers(64), expect_backward=triangle)
class StepDeclaredOnTies(_Step):
    pass


@innocent(normal(64), expect=hard_tanh)
class SignWithASoftTwin(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sign(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= 1)


@guilty("BP107", normal(64), expect=hard_tanh)
class MaskMissing(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.sign(x)

    @staticmethod
    def backward(ctx, g):
        return g.clone()


@guilty("BP107", normal(64), expect=hard_tanh)
class MaskAtTheWrongBound(SignWithASoftTwin):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= 2)


@guilty("BP107", normal(64), expect_backward=triangle)
class WrongFactor(_Step):
    @staticmethod
    def backward(ctx, g):
        return 0.5 * _Step.backward(ctx, g)


@guilty("BP107", values(0.3, -0.2, 0.7, -0.6), expect_backward=triangle)
class NanFarOut(_Step):
    """Right near zero; far out the triangle is inf - inf."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        far = torch.exp(4 * x.abs()) - torch.exp(4 * x.abs())
        return _Step.backward(ctx, g) + g * far


@guilty("BP107", values(0.3, -0.2, 0.7, -0.6), expect_backward=triangle)
class WrongAtZero(_Step):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return _Step.backward(ctx, g) * x.sign().abs()


@guilty(
    "BP107", normal(64), 0.5, expect_backward=lambda g, x, t: (g * (x.abs() <= t), None)
)
class StrictAtItsBound(Function):
    """The declared window is closed, and backward's is open."""

    @staticmethod
    def forward(ctx, x, t):
        ctx.save_for_backward(x)
        ctx.t = t
        return (x > t).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() < ctx.t), None
