"""The gradient is a constant times the truth, everywhere or in a region."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, flags, normal, plain, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional


class MeanSquaredError(Function):
    """Forward takes the mean, backward is that of the sum."""

    @staticmethod
    def forward(ctx, prediction, target):
        error = prediction - target
        ctx.save_for_backward(error)
        return error.square().mean()

    @staticmethod
    def backward(ctx, grad):
        (error,) = ctx.saved_tensors
        return 2 * error * grad, None


class HalfNorm(Function):
    """The two of the square was kept although forward has a half."""

    @staticmethod
    def forward(x):
        return 0.5 * x.square().sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class LowRankLinear(Function):
    """`down` and `up` share the scaling alpha; the gradient of `up` forgets it."""

    @staticmethod
    def forward(x, down, up, alpha):
        return (x @ down.t()) @ up.t() * alpha

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, down, up, ctx.alpha = inputs
        ctx.save_for_backward(x, down, up)

    @staticmethod
    def backward(ctx, grad):
        x, down, up = ctx.saved_tensors
        hidden = x @ down.t()
        grad_hidden = (grad * ctx.alpha) @ up
        grad_up = grad.t() @ hidden
        return grad_hidden @ down, grad_hidden.t() @ x, grad_up, None


class TemperedSoftmax(Function):
    """Multiplies by the temperature where it should divide by it."""

    @staticmethod
    def forward(ctx, logits, temperature):
        y = torch.softmax(logits / temperature, dim=-1)
        ctx.save_for_backward(y)
        ctx.temperature = temperature
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        inner = (grad * y).sum(-1, keepdim=True)
        return y * (grad - inner) * ctx.temperature, None


class AveragePool(Function):
    """Backward spreads the cotangent over the window undivided."""

    @staticmethod
    def forward(ctx, x, window):
        ctx.window = window
        return x.unflatten(-1, (-1, window)).mean(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad.repeat_interleave(ctx.window, dim=-1), None


class Huber(Function):
    """Delta is applied twice in the linear branch."""

    @staticmethod
    def forward(ctx, error, delta):
        ctx.save_for_backward(error)
        ctx.delta = delta
        size = error.abs()
        return torch.where(size > delta, delta * (size - delta / 2), error.square() / 2)

    @staticmethod
    def backward(ctx, grad):
        (error,) = ctx.saved_tensors
        delta = ctx.delta
        slope = torch.where(error.abs() > delta, delta * delta * error.sign(), error)
        return grad * slope, None


class Trapezoid(Function):
    """The last column has half the weight of the others; backward halves the first only."""

    @staticmethod
    def forward(ctx, y, dx):
        ctx.dx = dx
        ctx.shape = y.shape
        return torch.trapezoid(y, dx=dx, dim=-1)

    @staticmethod
    def backward(ctx, grad):
        weights = grad.new_full((ctx.shape[-1],), ctx.dx)
        weights[0] *= 0.5
        return grad.unsqueeze(-1) * weights, None


class Variance(Function):
    """Forward has Bessel's correction, backward divides by n."""

    @staticmethod
    def forward(ctx, x):
        centred = x - x.mean(-1, keepdim=True)
        ctx.save_for_backward(centred)
        return centred.square().sum(-1) / (x.shape[-1] - 1)

    @staticmethod
    def backward(ctx, grad):
        (centred,) = ctx.saved_tensors
        return grad.unsqueeze(-1) * 2 * centred / centred.shape[-1]


class AttentionScores(Function):
    """The keys miss the scale 1/sqrt(d)."""

    @staticmethod
    def forward(ctx, query, key):
        ctx.save_for_backward(query, key)
        ctx.scale = query.shape[-1] ** -0.5
        return query @ key.mT * ctx.scale

    @staticmethod
    def backward(ctx, grad):
        query, key = ctx.saved_tensors
        grad_query = (grad @ key) * ctx.scale
        grad_key = grad.mT @ query
        return grad_query, grad_key


class Fahrenheit(Function):
    """The ratio of the units upside down."""

    @staticmethod
    def forward(ctx, celsius):
        return celsius * 9 / 5 + 32

    @staticmethod
    def backward(ctx, grad):
        return grad * 5 / 9


class ThresholdSoftplus(Function):
    """In the linear part, beta is not cancelled."""

    @staticmethod
    def forward(ctx, x, beta, threshold):
        ctx.save_for_backward(x)
        ctx.beta, ctx.threshold = beta, threshold
        scaled = x * beta
        return torch.where(scaled > threshold, x, scaled.exp().log1p() / beta)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        scaled = x * ctx.beta
        slope = torch.where(scaled > ctx.threshold, ctx.beta, torch.sigmoid(scaled))
        return grad * slope, None, None


class MaskedMeanSquare(Function):
    """Divides by all positions, forward by the kept ones."""

    @staticmethod
    def forward(ctx, x, mask):
        ctx.save_for_backward(x, mask)
        return (x.square() * mask).sum() / mask.sum()

    @staticmethod
    def backward(ctx, grad):
        x, mask = ctx.saved_tensors
        return 2 * grad * x * mask / mask.numel(), None


class FakeQuantise(Function):
    """The gradient of the scale is damped by the number of elements, as is the habit."""

    @staticmethod
    def forward(ctx, x, scale, levels):
        whole = (x / scale).round().clamp(-levels, levels - 1)
        ctx.save_for_backward(whole)
        ctx.levels = levels
        return whole * scale

    @staticmethod
    def backward(ctx, grad):
        (whole,) = ctx.saved_tensors
        damping = (whole.numel() * (ctx.levels - 1)) ** -0.5
        return None, (grad * whole).sum(-1, keepdim=True) * damping, None


class TableLookup(Function):
    """Linear interpolation in a table; the slope is per cell and not per unit."""

    @staticmethod
    def forward(ctx, x, table, spacing):
        at = x / spacing
        cell = at.detach().floor().long().clamp(0, len(table) - 2)
        part = at - cell
        ctx.save_for_backward(table, cell, part)
        return table[cell] * (1 - part) + table[cell + 1] * part

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        table, cell, part = ctx.saved_tensors
        grad_table = torch.zeros_like(table)
        grad_table.index_add_(0, cell, grad * (1 - part))
        grad_table.index_add_(0, cell + 1, grad * part)
        return grad * (table[cell + 1] - table[cell]), grad_table, None


class BlockedExponential(Function):
    """Neighbouring blocks of backward have one element in common, which counts twice."""

    BLOCK = 64

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        result = torch.zeros_like(y)
        for start in range(0, len(y), BlockedExponential.BLOCK):
            block = slice(start, start + BlockedExponential.BLOCK + 1)
            result[block] += grad[block] * y[block]
        return result


def _mask_last_column(y, dx):
    mask = torch.zeros_like(y, dtype=torch.bool)
    mask[..., -1] = True
    return mask


def _first_of_later_blocks(x):
    places = torch.arange(len(x))
    return (places > 0) & (places % BlockedExponential.BLOCK == 0)


def _table_lookup(x, table, spacing):
    knots = torch.arange(len(table)) * spacing
    hats = (1 - (x[:, None] - knots).abs() / spacing).clamp(min=0)
    return hats @ table


FAULTS = [
    Fault(
        "mse_mean_not_divided",
        ("scaled",),
        MeanSquaredError,
        drawn(normal(16, 8), plain(normal(16, 8))),
        "prediction",
        everywhere(0),
        functional.mse_loss,
    ),
    Fault(
        "half_norm_doubled",
        ("scaled",),
        HalfNorm,
        drawn(normal(300)),
        "x",
        everywhere(0),
        lambda x: 0.5 * (x * x).sum(),
    ),
    Fault(
        "low_rank_linear_alpha_forgotten_for_up",
        ("scaled",),
        LowRankLinear,
        drawn(normal(12, 10), normal(3, 10), normal(7, 3), 0.25),
        "up",
        everywhere(2),
        lambda x, down, up, alpha: functional.linear(x, up @ down) * alpha,
    ),
    Fault(
        "tempered_softmax_temperature_inverted",
        ("scaled",),
        TemperedSoftmax,
        drawn(normal(6, 10), 1.7),
        "logits",
        everywhere(0),
        lambda logits, temperature: (logits / temperature).softmax(-1),
    ),
    Fault(
        "average_pool_undivided",
        ("scaled",),
        AveragePool,
        drawn(normal(8, 16, 1024), 4),
        "x",
        everywhere(0),
        functional.avg_pool1d,
    ),
    Fault(
        "huber_delta_squared_in_linear_branch",
        ("scaled",),
        Huber,
        drawn(normal(40, 25), 1.35),
        "error",
        lambda error, delta: error.abs() > delta,
        lambda error, delta: functional.huber_loss(
            error, torch.zeros_like(error), reduction="none", delta=delta
        ),
    ),
    Fault(
        "trapezoid_last_column_doubled",
        ("scaled",),
        Trapezoid,
        drawn(normal(20, 33), 0.1),
        "y",
        _mask_last_column,
        lambda y, dx: ((y[..., 1:] + y[..., :-1]) / 2).sum(-1) * dx,
    ),
    Fault(
        "variance_without_correction",
        ("scaled",),
        Variance,
        drawn(normal(4, 12)),
        "x",
        everywhere(0),
        lambda x: x.var(-1),
    ),
    Fault(
        "attention_scores_key_unscaled",
        ("scaled",),
        AttentionScores,
        drawn(normal(2, 3, 7, 8), normal(2, 3, 9, 8)),
        "key",
        everywhere(1),
        lambda query, key: torch.einsum("bhqd,bhkd->bhqk", query, key) / 8**0.5,
    ),
    Fault(
        "fahrenheit_ratio_inverted",
        ("scaled",),
        Fahrenheit,
        drawn(normal()),
        "celsius",
        everywhere(0),
        lambda celsius: celsius * 1.8 + 32,
    ),
    Fault(
        "softplus_beta_in_linear_part",
        ("scaled",),
        ThresholdSoftplus,
        drawn(normal(200_000), 2.0, 3.0),
        "x",
        lambda x, beta, threshold: x * beta > threshold,
        functional.softplus,
    ),
    Fault(
        "masked_mean_divides_by_all",
        ("scaled",),
        MaskedMeanSquare,
        drawn(normal(5, 6, 7), flags(0.6, 5, 6, 7)),
        "x",
        lambda x, mask: mask,
        lambda x, mask: x[mask].square().mean(),
    ),
    Fault(
        "fake_quantise_scale_damped",
        ("scaled",),
        FakeQuantise,
        drawn(plain(normal(4, 20)), uniform(0.2, 0.4, 4, 1), 8),
        "scale",
        everywhere(1),
        lambda x, scale, levels: scale * (x / scale).round().clamp(-levels, levels - 1),
    ),
    Fault(
        "table_lookup_slope_per_cell",
        ("scaled",),
        TableLookup,
        drawn(uniform(0, 4, 70), normal(9), 0.5),
        "x",
        everywhere(0),
        _table_lookup,
    ),
    Fault(
        "blocked_exponential_overlap",
        ("scaled",),
        BlockedExponential,
        drawn(normal(5000)),
        "x",
        _first_of_later_blocks,
        torch.exp,
    ),
]
