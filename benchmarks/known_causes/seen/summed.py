"""Reduced over the wrong axis, not enough, too much, or by another rule than a sum."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, indices, normal, plain
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional


class ChannelShift(Function):
    """Channels are axis 1; the sum keeps axis 2, which is as long."""

    @staticmethod
    def forward(ctx, image, shift):
        return image + shift.view(1, -1, 1, 1)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad.sum((0, 1, 3))


class GlobalScale(Function):
    """One number for all; its gradient is a mean."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        return grad * scale, (grad * x).mean()


class FeatureWeights(Function):
    """The first sample stands for all."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad * weight, (grad * x)[0]


class SharedProjection(Function):
    """Batched matmul with one weight; the gradient is that of the last entry."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        for entry, g in zip(x, grad, strict=True):
            grad_weight = entry.t() @ g
        return grad @ weight.t(), grad_weight


class OuterSum(Function):
    """exp(row + column), square; both are summed along the same axis."""

    @staticmethod
    def forward(ctx, row, column):
        y = (row + column[:, None]).exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        total = (grad * y).sum(-1)
        return total, total


class ColumnNorms(Function):
    """Squared norms of the columns of a square matrix, spread along the rows."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square().sum(0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad[:, None]


class RelativePosition(Function):
    """A table added to the scores of all heads; its gradient is their mean."""

    @staticmethod
    def forward(ctx, scores, table):
        y = (scores + table).softmax(-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        inner = y * (grad - (grad * y).sum(-1, keepdim=True))
        return inner, inner.mean((0, 1))


class ChannelSlope(Function):
    """A slope a channel; every channel gets the sum over all."""

    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x, slope)
        return torch.where(x > 0, x, slope.view(1, -1, 1) * x)

    @staticmethod
    def backward(ctx, grad):
        x, slope = ctx.saved_tensors
        wide = slope.view(1, -1, 1)
        total = (grad * x.clamp(max=0)).sum()
        return torch.where(x > 0, grad, wide * grad), total.expand_as(slope)


class Polynomial(Function):
    """Four coefficients for many points; their gradients are means."""

    @staticmethod
    def forward(ctx, x, coefficients):
        powers = torch.stack([x**k for k in range(len(coefficients))], -1)
        ctx.save_for_backward(powers)
        return powers @ coefficients

    @staticmethod
    def backward(ctx, grad):
        (powers,) = ctx.saved_tensors
        return None, (grad[:, None] * powers).mean(0)


class HeadTemperature(Function):
    """One a head; of its rows the first is counted."""

    @staticmethod
    def forward(ctx, scores, temperature):
        ctx.save_for_backward(scores, temperature)
        return torch.tanh(scores * temperature[:, None, None])

    @staticmethod
    def backward(ctx, grad):
        scores, temperature = ctx.saved_tensors
        wide = temperature[:, None, None]
        inner = grad * (1 - torch.tanh(scores * wide) ** 2)
        return inner * wide, (inner * scores)[:, 0].sum(-1)


class ConvolutionBias(Function):
    """Summed over the batch, and of the positions only the first."""

    @staticmethod
    def forward(ctx, signal, kernel, bias):
        ctx.save_for_backward(signal, kernel)
        return functional.conv1d(signal, kernel, bias)

    @staticmethod
    def backward(ctx, grad):
        signal, kernel = ctx.saved_tensors
        grad_signal = functional.conv_transpose1d(grad, kernel)
        windows = signal.unfold(-1, kernel.shape[-1], 1)
        grad_kernel = torch.einsum("bot,bitk->oik", grad, windows)
        return grad_signal, grad_kernel, grad[..., 0].sum(0)


class SegmentOffsets(Function):
    """Each group is shifted by an offset of its own; the last member overwrites."""

    @staticmethod
    def forward(ctx, x, offset, group):
        ctx.save_for_backward(group)
        ctx.groups = len(offset)
        return x - offset[group]

    @staticmethod
    def backward(ctx, grad):
        (group,) = ctx.saved_tensors
        grad_offset = grad.new_zeros(ctx.groups)
        for member, g in zip(group.tolist(), grad, strict=True):
            grad_offset[member] = -g
        return grad, grad_offset, None


FAULTS = [
    Fault(
        "channel_shift_keeps_rows",
        ("summed",),
        ChannelShift,
        drawn(normal(2, 6, 6, 3), normal(6)),
        "shift",
        everywhere(1),
        lambda image, shift: image + shift[:, None, None],
    ),
    Fault(
        "global_scale_mean",
        ("summed", "scaled"),
        GlobalScale,
        drawn(normal(120, 1000), normal(mean=1.5, scale=0.1)),
        "scale",
        everywhere(1),
        torch.mul,
    ),
    Fault(
        "feature_weights_first_sample",
        ("summed",),
        FeatureWeights,
        drawn(normal(30, 10), normal(10)),
        "weight",
        everywhere(1),
        torch.mul,
    ),
    Fault(
        "shared_projection_last_entry",
        ("summed",),
        SharedProjection,
        drawn(normal(4, 3, 6), normal(6, 5)),
        "weight",
        everywhere(1),
        torch.matmul,
    ),
    Fault(
        "outer_sum_row_along_columns",
        ("summed",),
        OuterSum,
        drawn(normal(9), normal(9)),
        "row",
        everywhere(0),
        lambda row, column: torch.outer(column.exp(), row.exp()),
    ),
    Fault(
        "column_norms_spread_along_rows",
        ("summed",),
        ColumnNorms,
        drawn(normal(8, 8)),
        "x",
        lambda x: ~torch.eye(8, dtype=torch.bool),
        lambda x: (x * x).sum(0),
    ),
    Fault(
        "relative_position_mean_of_heads",
        ("summed", "scaled"),
        RelativePosition,
        drawn(normal(2, 4, 6, 6), normal(6, 6)),
        "table",
        everywhere(1),
        lambda scores, table: torch.softmax(table + scores, -1),
    ),
    Fault(
        "channel_slope_sum_of_all",
        ("summed",),
        ChannelSlope,
        drawn(normal(5, 4, 12), normal(4, mean=0.2, scale=0.05)),
        "slope",
        everywhere(1),
        functional.prelu,
    ),
    Fault(
        "polynomial_coefficients_mean",
        ("summed", "scaled"),
        Polynomial,
        drawn(plain(normal(100_000)), normal(4)),
        "coefficients",
        everywhere(1),
        lambda x, c: c[0] + x * (c[1] + x * (c[2] + x * c[3])),
    ),
    Fault(
        "head_temperature_first_row",
        ("summed",),
        HeadTemperature,
        drawn(normal(3, 5, 7), normal(3, mean=1, scale=0.2)),
        "temperature",
        everywhere(1),
        lambda scores, t: (scores * t.view(-1, 1, 1)).tanh(),
    ),
    Fault(
        "convolution_bias_first_position",
        ("summed",),
        ConvolutionBias,
        drawn(normal(3, 2, 20), normal(4, 2, 3), normal(4)),
        "bias",
        everywhere(2),
        functional.conv1d,
    ),
    Fault(
        "segment_offsets_last_member",
        ("summed",),
        SegmentOffsets,
        drawn(normal(60), normal(5), indices(5, 60)),
        "offset",
        everywhere(1),
        lambda x, offset, group: x - offset.index_select(0, group),
    ),
]
