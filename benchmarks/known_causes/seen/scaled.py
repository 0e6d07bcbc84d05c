"""The gradient is a constant times the truth."""

from __future__ import annotations

import math

import torch
from known_causes.draws import drawn, indices, keep, normal, plain, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional


class SigmoidLoss(Function):
    """Summed over the labels, averaged over the batch; backward averages over both."""

    @staticmethod
    def forward(ctx, logits, target):
        ctx.save_for_backward(logits, target)
        each = functional.softplus(logits) - target * logits
        return each.sum() / len(logits)

    @staticmethod
    def backward(ctx, grad):
        logits, target = ctx.saved_tensors
        return grad * (torch.sigmoid(logits) - target) / logits.numel(), None


class SpringEnergy(Function):
    @staticmethod
    def forward(ctx, displacement, stiffness):
        ctx.force = stiffness * displacement
        ctx.stiffness = stiffness
        return 0.5 * stiffness * displacement.square().sum(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad[..., None] * ctx.stiffness * ctx.force, None


class OverlappingAverage(Function):
    """Windows of six with a stride of four; the stride divides."""

    @staticmethod
    def forward(ctx, signal):
        ctx.length = signal.shape[-1]
        return signal.unfold(-1, 6, 4).mean(-1)

    @staticmethod
    def backward(ctx, grad):
        result = grad.new_zeros(*grad.shape[:-1], ctx.length)
        for window in range(grad.shape[-1]):
            start = 4 * window
            result[..., start : start + 6] += grad[..., window, None] / 4
        return result


class Celu(Function):
    """The inner 1/alpha of exp(x / alpha) is divided by once more."""

    @staticmethod
    def forward(ctx, x, alpha):
        ctx.save_for_backward(x)
        ctx.alpha = alpha
        return torch.where(x > 0, x, alpha * torch.expm1(x / alpha))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        slope = torch.exp(x / ctx.alpha) / ctx.alpha
        return torch.where(x > 0, grad, grad * slope), None


class Logarithm(Function):
    """To a base, whose logarithm multiplies where it should divide."""

    @staticmethod
    def forward(ctx, x, base):
        ctx.save_for_backward(x)
        ctx.base = base
        return torch.log(x) / math.log(base)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * math.log(ctx.base) / x, None


class Dropout(Function):
    @staticmethod
    def forward(ctx, x, mask, p):
        ctx.save_for_backward(mask)
        return x * mask / (1 - p)

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask, None, None


class SpectrumEnergy(Function):
    """Of a one-sided spectrum: every bin counts twice but the first."""

    @staticmethod
    def forward(ctx, amplitude):
        ctx.save_for_backward(amplitude)
        power = amplitude.square()
        return power[..., 0] + 2 * power[..., 1:].sum(-1)

    @staticmethod
    def backward(ctx, grad):
        (amplitude,) = ctx.saved_tensors
        return 4 * grad[..., None] * amplitude


class SmoothL1(Function):
    """The quadratic part forgets beta."""

    @staticmethod
    def forward(ctx, error, beta):
        ctx.save_for_backward(error)
        ctx.beta = beta
        size = error.abs()
        return torch.where(size < beta, error**2 / (2 * beta), size - beta / 2)

    @staticmethod
    def backward(ctx, grad):
        (error,) = ctx.saved_tensors
        inside = error.abs() < ctx.beta
        return grad * torch.where(inside, error, error.sign()), None


class ScaledEmbedding(Function):
    """As transformers have it, times the root of the width."""

    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(index)
        ctx.rows = table.shape[0]
        return table[index] * math.sqrt(table.shape[1])

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        width = grad.shape[-1]
        result = grad.new_zeros(ctx.rows, width)
        result.index_add_(0, index.reshape(-1), grad.reshape(-1, width))
        return result, None


class SineOfDegrees(Function):
    @staticmethod
    def forward(ctx, angle):
        ctx.save_for_backward(angle)
        return torch.sin(torch.deg2rad(angle))

    @staticmethod
    def backward(ctx, grad):
        (angle,) = ctx.saved_tensors
        return grad * torch.cos(torch.deg2rad(angle))


class AddProduct(Function):
    """a + value * b * c; the value reaches one of the factors only."""

    @staticmethod
    def forward(ctx, a, b, c, value):
        ctx.save_for_backward(b, c)
        ctx.value = value
        return torch.addcmul(a, b, c, value=value)

    @staticmethod
    def backward(ctx, grad):
        b, c = ctx.saved_tensors
        return grad, grad * c, ctx.value * grad * b, None


class SquaredDistance(Function):
    """Of each to each."""

    @staticmethod
    def forward(x, y):
        return (x[:, None] - y).square().sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad.sum(-1, keepdim=True) * x - grad @ y, None


def _first_column(amplitude):
    mask = torch.zeros_like(amplitude, dtype=torch.bool)
    mask[..., 0] = True
    return mask


FAULTS = [
    Fault(
        "sigmoid_loss_divided_by_labels_too",
        ("scaled",),
        SigmoidLoss,
        drawn(normal(12, 7), keep(0.4, 12, 7)),
        "logits",
        everywhere(0),
        lambda x, target: (
            functional.binary_cross_entropy_with_logits(
                x, target.to(x.dtype), reduction="sum"
            )
            / len(x)
        ),
    ),
    Fault(
        "spring_energy_stiffness_twice",
        ("scaled",),
        SpringEnergy,
        drawn(normal(40, 3), 2.7),
        "displacement",
        everywhere(0),
        lambda x, stiffness: stiffness * (x * x).sum(-1) / 2,
    ),
    Fault(
        "overlapping_average_by_stride",
        ("scaled",),
        OverlappingAverage,
        drawn(normal(2, 3, 30)),
        "signal",
        everywhere(0),
        lambda x: functional.avg_pool1d(x, 6, 4),
    ),
    Fault(
        "celu_alpha_once_more",
        ("scaled",),
        Celu,
        drawn(normal(120_000), 1.6),
        "x",
        lambda x, alpha: x <= 0,
        functional.celu,
    ),
    Fault(
        "logarithm_base_multiplied",
        ("scaled",),
        Logarithm,
        drawn(uniform(0.2, 5, 6, 11), 10.0),
        "x",
        everywhere(0),
        lambda x, base: x.log10(),
    ),
    Fault(
        "dropout_without_its_scale",
        ("scaled",),
        Dropout,
        drawn(normal(2, 4, 5, 6), keep(0.8, 2, 4, 5, 6), 0.2),
        "x",
        lambda x, mask, p: mask != 0,
        lambda x, mask, p: x * (mask / (1 - p)),
    ),
    Fault(
        "one_sided_spectrum_first_bin_twice",
        ("scaled",),
        SpectrumEnergy,
        drawn(normal(9, 33)),
        "amplitude",
        _first_column,
        lambda a: 2 * (a * a).sum(-1) - a[..., 0] ** 2,
    ),
    Fault(
        "smooth_l1_beta_in_the_quadratic_part",
        ("scaled",),
        SmoothL1,
        drawn(normal(300, 5), 0.4),
        "error",
        lambda error, beta: error.abs() < beta,
        lambda e, beta: functional.smooth_l1_loss(
            e, torch.zeros_like(e), reduction="none", beta=beta
        ),
    ),
    Fault(
        "embedding_root_of_width_forgotten",
        ("scaled",),
        ScaledEmbedding,
        drawn(normal(11, 8), indices(11, 3, 20)),
        "table",
        everywhere(0),
        lambda table, index: functional.embedding(index, table * 8**0.5),
    ),
    Fault(
        "sine_of_degrees_in_radians",
        ("scaled",),
        SineOfDegrees,
        drawn(normal(500_000, scale=90)),
        "angle",
        everywhere(0),
        lambda x: (x * math.pi / 180).sin(),
    ),
    Fault(
        "add_product_value_for_one_factor_only",
        ("scaled",),
        AddProduct,
        drawn(normal(8, 6), normal(8, 6), normal(8, 6), -0.35),
        "b",
        everywhere(1),
        lambda a, b, c, value: a + value * b * c,
    ),
    Fault(
        "squared_distance_halved",
        ("scaled",),
        SquaredDistance,
        drawn(normal(5, 9), plain(normal(7, 9))),
        "x",
        everywhere(0),
        lambda x, y: torch.cdist(x, y) ** 2,
    ),
]
