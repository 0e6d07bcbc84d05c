"""A factor is missing, one too many, or stands where another belongs."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, keep, normal, plain, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional


class LogOnePlus(Function):
    """1/x for 1/(1 + x)."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.log1p(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / x


class GatedLinear(Function):
    """The gate's own slope is half there."""

    @staticmethod
    def forward(ctx, value, gate):
        ctx.save_for_backward(value, gate)
        return value * torch.sigmoid(gate)

    @staticmethod
    def backward(ctx, grad):
        value, gate = ctx.saved_tensors
        s = torch.sigmoid(gate)
        return grad * s, grad * value * s


class Power(Function):
    """The logarithm of the exponent's gradient."""

    @staticmethod
    def forward(ctx, base, exponent):
        y = torch.pow(base, exponent)
        ctx.save_for_backward(base, exponent, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        base, exponent, y = ctx.saved_tensors
        return grad * exponent * base ** (exponent - 1), grad * y


class FrozenBatchNorm(Function):
    """With statistics that are given; the gain is left out."""

    @staticmethod
    def forward(ctx, x, mean, inverse, gain):
        ctx.save_for_backward(inverse)
        shape = (1, -1, 1, 1)
        normed = (x - mean.view(shape)) * inverse.view(shape)
        return normed * gain.view(shape)

    @staticmethod
    def backward(ctx, grad):
        (inverse,) = ctx.saved_tensors
        return grad * inverse.view(1, -1, 1, 1), None, None, None


class Reciprocal(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.reciprocal()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return -grad * y


class ExponentialScale(Function):
    """Features times exp(scale); backward takes the scale itself."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return x * scale.exp()

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        return grad * scale, (grad * x * scale.exp()).sum(0)


class WeightedCumulativeSum(Function):
    @staticmethod
    def forward(ctx, x, weight):
        return (x * weight).cumsum(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad.flip(-1).cumsum(-1).flip(-1), None


class PrunedLinear(Function):
    """Pruned weights are zero; their gradient is not."""

    @staticmethod
    def forward(ctx, x, weight, kept):
        ctx.save_for_backward(x, weight * kept)
        return x @ (weight * kept).t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, grad.t() @ x, None


class Distance(Function):
    """Of each row to a centre; the division by the distance is missing."""

    @staticmethod
    def forward(ctx, x, centre):
        ctx.save_for_backward(x, centre)
        return (x - centre).norm(dim=-1)

    @staticmethod
    def backward(ctx, grad):
        x, centre = ctx.saved_tensors
        return grad[:, None] * (x - centre), None


class HalfSquare(Function):
    """The factor x twice."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * x


class ArcSinh(Function):
    """The root is forgotten."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.asinh(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / (1 + x * x)


class WeightedMean(Function):
    """Over the last axis, by weights that are not all one; they are forgotten."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(weight)
        ctx.width = x.shape[-1]
        return (x * weight).sum(-1) / weight.sum()

    @staticmethod
    def backward(ctx, grad):
        (weight,) = ctx.saved_tensors
        return (grad[..., None] / weight.sum()).expand(*grad.shape, ctx.width), None


FAULTS = [
    Fault(
        "log_one_plus_input_alone",
        ("factor",),
        LogOnePlus,
        drawn(uniform(0.1, 4, 110_000)),
        "x",
        everywhere(0),
        lambda x: (1 + x).log(),
    ),
    Fault(
        "gated_linear_complement_forgotten",
        ("factor",),
        GatedLinear,
        drawn(normal(12, 9), normal(12, 9)),
        "gate",
        everywhere(1),
        lambda value, gate: functional.glu(torch.cat((value, gate), -1)),
    ),
    Fault(
        "power_logarithm_forgotten",
        ("factor",),
        Power,
        drawn(uniform(0.3, 4, 3, 5, 4), normal(3, 5, 4)),
        "exponent",
        everywhere(1),
        lambda base, exponent: (exponent * base.log()).exp(),
    ),
    Fault(
        "frozen_batch_norm_gain_forgotten",
        ("factor",),
        FrozenBatchNorm,
        drawn(
            normal(2, 5, 4, 4),
            plain(normal(5)),
            plain(uniform(0.5, 2, 5)),
            plain(normal(5)),
        ),
        "x",
        everywhere(0),
        lambda x, mean, inverse, gain: functional.batch_norm(
            x, mean, inverse**-2, gain, eps=0
        ),
    ),
    Fault(
        "reciprocal_output_once",
        ("factor",),
        Reciprocal,
        drawn(uniform(0.3, 3, 26)),
        "x",
        everywhere(0),
        lambda x: 1 / x,
    ),
    Fault(
        "exponential_scale_itself",
        ("factor",),
        ExponentialScale,
        drawn(normal(40, 6), normal(6)),
        "x",
        everywhere(0),
        lambda x, scale: x * scale.exp(),
    ),
    Fault(
        "weighted_cumulative_sum_weight_forgotten",
        ("factor",),
        WeightedCumulativeSum,
        drawn(normal(5, 24), plain(uniform(0.3, 2, 24))),
        "x",
        everywhere(0),
        lambda x, weight: torch.cumsum(weight * x, -1),
    ),
    Fault(
        "pruned_linear_mask_forgotten",
        ("factor",),
        PrunedLinear,
        drawn(normal(9, 14), normal(6, 14), keep(0.7, 6, 14)),
        "weight",
        lambda x, weight, kept: kept == 0,
        lambda x, weight, kept: functional.linear(x, weight * kept),
    ),
    Fault(
        "distance_not_divided",
        ("factor",),
        Distance,
        drawn(normal(15, 4), plain(normal(4))),
        "x",
        everywhere(0),
        lambda x, centre: ((x - centre) ** 2).sum(-1).sqrt(),
    ),
    Fault(
        "half_square_input_twice",
        ("factor",),
        HalfSquare,
        drawn(normal(600, 800)),
        "x",
        everywhere(0),
        lambda x: x**2 / 2,
    ),
    Fault(
        "arc_sinh_root_forgotten",
        ("factor",),
        ArcSinh,
        drawn(normal(7, 3, 5)),
        "x",
        everywhere(0),
        torch.asinh,
    ),
    Fault(
        "weighted_mean_weights_forgotten",
        ("factor",),
        WeightedMean,
        drawn(normal(3, 8, 10), plain(uniform(0.2, 2, 10))),
        "x",
        everywhere(0),
        lambda x, weight: x @ (weight / weight.sum()),
    ),
]
