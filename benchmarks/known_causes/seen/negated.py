"""The sign of the gradient is wrong."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, normal, plain, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional


class Complement(Function):
    """1 - sigmoid(x)."""

    @staticmethod
    def forward(ctx, x):
        y = 1 - torch.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y * (1 - y)


class AbsoluteError(Function):
    @staticmethod
    def forward(ctx, prediction, target):
        ctx.save_for_backward(prediction, target)
        return (prediction - target).abs().mean()

    @staticmethod
    def backward(ctx, grad):
        prediction, target = ctx.saved_tensors
        each = grad * (prediction - target).sign() / prediction.numel()
        return each, each


class SignedSquare(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.abs()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x


class Cross(Function):
    """The order in the first of the two products."""

    @staticmethod
    def forward(a, b):
        return torch.linalg.cross(a, b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return torch.linalg.cross(grad, b), torch.linalg.cross(grad, a)


class Rotation(Function):
    """Of points by angles of their own; two outputs."""

    @staticmethod
    def forward(ctx, x, y, angle):
        c, s = angle.cos(), angle.sin()
        u, v = x * c - y * s, x * s + y * c
        ctx.save_for_backward(c, s, u, v)
        return u, v

    @staticmethod
    def backward(ctx, grad_u, grad_v):
        c, s, u, v = ctx.saved_tensors
        return (
            grad_u * c + grad_v * s,
            grad_v * c - grad_u * s,
            grad_u * v - grad_v * u,
        )


class LogRatio(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a.log() - b.log()

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad / a, grad / b


class Demodulation(Function):
    """Every second column changes its sign, in forward alone."""

    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        y = y.clone()
        y[..., 1::2].neg_()
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y)


class ColourDifference(Function):
    """The last channel enters with a minus."""

    @staticmethod
    def forward(ctx, image):
        ctx.save_for_backward(image)
        red, green, blue = image.square().unbind(1)
        return torch.stack((red, green, -blue), 1)

    @staticmethod
    def backward(ctx, grad):
        (image,) = ctx.saved_tensors
        result = torch.empty_like(image)
        for channel in range(image.shape[1]):
            result[:, channel] = 2 * grad[:, channel] * image[:, channel]
        return result


class Triplet(Function):
    @staticmethod
    def forward(ctx, anchor, positive, negative):
        near = (anchor - positive).square().sum(-1)
        far = (anchor - negative).square().sum(-1)
        active = near - far + 1 > 0
        ctx.save_for_backward(anchor, positive, negative, active)
        return torch.where(active, near - far + 1, 0)

    @staticmethod
    def backward(ctx, grad):
        anchor, positive, negative, active = ctx.saved_tensors
        twice = (2 * grad * active)[:, None]
        return (
            twice * (negative - positive),
            twice * (positive - anchor),
            twice * (negative - anchor),
        )


class ArcCosine(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.acos(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.rsqrt(1 - x * x)


class Reflect(Function):
    """Values beyond the bound are mirrored at it."""

    @staticmethod
    def forward(ctx, x, bound):
        return torch.where(x.abs() > bound, 2 * bound * x.sign() - x, x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Poisson(Function):
    """rate - count * log(rate), mean; the second part ascends where counts are high."""

    @staticmethod
    def forward(ctx, log_rate, count):
        ctx.save_for_backward(log_rate, count)
        return (log_rate.exp() - count * log_rate).mean((0, 1))

    @staticmethod
    def backward(ctx, grad):
        log_rate, count = ctx.saved_tensors
        each = (log_rate.exp() - count).abs()
        return grad * each / (each.shape[0] * each.shape[1]), None


def _odd_columns(x):
    return (torch.arange(x.shape[-1]) % 2 == 1).expand(x.shape)


def _last_channel(image):
    mask = torch.zeros_like(image, dtype=torch.bool)
    mask[:, -1] = True
    return mask


def _rotation(x, y, angle):
    turned = torch.complex(x, y) * torch.polar(torch.ones_like(angle), angle)
    return turned.real, turned.imag


FAULTS = [
    Fault(
        "complement_of_sigmoid",
        ("negated",),
        Complement,
        drawn(normal(30, 40)),
        "x",
        everywhere(0),
        lambda x: torch.sigmoid(-x),
    ),
    Fault(
        "absolute_error_target",
        ("negated",),
        AbsoluteError,
        drawn(normal(25, 4), normal(25, 4)),
        "target",
        everywhere(1),
        functional.l1_loss,
    ),
    Fault(
        "signed_square_negative_half",
        ("negated", "factor"),
        SignedSquare,
        drawn(normal(700, 300)),
        "x",
        lambda x: x < 0,
        lambda x: x.square() * x.sign(),
    ),
    Fault(
        "cross_product_order",
        ("negated",),
        Cross,
        drawn(normal(14, 3), normal(14, 3)),
        "a",
        everywhere(0),
        torch.linalg.cross,
    ),
    Fault(
        "rotation_angle_two_outputs",
        ("negated",),
        Rotation,
        drawn(normal(35), normal(35), normal(35)),
        "angle",
        everywhere(2),
        _rotation,
    ),
    Fault(
        "log_ratio_denominator",
        ("negated",),
        LogRatio,
        drawn(uniform(0.5, 3, 200_000), uniform(0.5, 3, 200_000)),
        "b",
        everywhere(1),
        lambda a, b: (a / b).log(),
    ),
    Fault(
        "demodulation_odd_columns",
        ("negated",),
        Demodulation,
        drawn(normal(6, 15)),
        "x",
        _odd_columns,
        lambda x: x.tanh() * (1 - 2 * (torch.arange(15) % 2)),
    ),
    Fault(
        "colour_difference_last_channel",
        ("negated",),
        ColourDifference,
        drawn(normal(2, 3, 8, 8)),
        "image",
        _last_channel,
        lambda x: x**2 * torch.tensor([1, 1, -1]).view(3, 1, 1),
    ),
    Fault(
        "triplet_negative",
        ("negated",),
        Triplet,
        drawn(normal(10, 6), normal(10, 6), normal(10, 6)),
        "negative",
        # Where the margin is kept, both are zero.
        lambda a, p, n: (((a - p) ** 2).sum(-1) - ((a - n) ** 2).sum(-1) + 1 > 0)[
            :, None
        ].expand(n.shape),
        lambda a, p, n: (((a - p) ** 2 - (a - n) ** 2).sum(-1) + 1).relu(),
    ),
    Fault(
        "arc_cosine",
        ("negated",),
        ArcCosine,
        drawn(uniform(-0.9, 0.9, 3, 5, 7)),
        "x",
        everywhere(0),
        torch.acos,
    ),
    Fault(
        "reflection_beyond_the_bound",
        ("negated", "passed_through"),
        Reflect,
        drawn(uniform(-2, 2, 4, 60), 1.25),
        "x",
        lambda x, bound: x.abs() > bound,
        lambda x, bound: x.clamp(-bound, bound) * 2 - x,
    ),
    Fault(
        "poisson_absolute_residual",
        ("negated",),
        Poisson,
        drawn(normal(9, 4, 5), plain(uniform(0, 3, 9, 4, 5))),
        "log_rate",
        lambda log_rate, count: log_rate.exp() < count,
        lambda x, count: functional.poisson_nll_loss(x, count, reduction="none").mean(
            (0, 1)
        ),
    ),
]
