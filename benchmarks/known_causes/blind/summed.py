"""The gradient is reduced over the wrong axis, in the wrong way, or not at all."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, indices, normal
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional


class SquareLinear(Function):
    """The bias is summed over the features: there are as many of them as samples."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.t() + bias

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, grad.t() @ x, grad.sum(1)


class LinearMeanBias(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight.t(), x.t() @ grad, grad.mean(0)


class LayerNorm(Function):
    """The gain takes the first row for all."""

    @staticmethod
    def forward(ctx, x, gain):
        mean = x.mean(-1, keepdim=True)
        rstd = (x.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()
        normed = (x - mean) * rstd
        ctx.save_for_backward(normed, rstd, gain)
        return normed * gain

    @staticmethod
    def backward(ctx, grad):
        normed, rstd, gain = ctx.saved_tensors
        wide = grad * gain
        first = wide.mean(-1, keepdim=True)
        second = (wide * normed).mean(-1, keepdim=True)
        return rstd * (wide - first - normed * second), (grad * normed)[0]


class BroadcastMultiply(Function):
    """(5, 4, 3) by (4, 1): leading axes are summed, the kept one is cut."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        full = grad * x
        while full.dim() > w.dim():
            full = full.sum(0)
        return grad * w, full[tuple(slice(0, n) for n in w.shape)]


class Embedding(Function):
    """Rows that were looked up more than once keep the last cotangent."""

    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return table[index]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        result = grad.new_zeros(ctx.shape)
        for place, row in enumerate(index.tolist()):
            result[row] = grad[place]
        return result, None


class ChannelBias(Function):
    """Channels and rows are as many; the sum leaves the rows."""

    @staticmethod
    def forward(x, bias):
        return x + bias.view(1, -1, 1, 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad, grad.sum(dim=(0, 1, 3))


class RowMean(Function):
    """Spread along the other axis."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.mean(1)

    @staticmethod
    def backward(ctx, grad):
        return (grad / ctx.shape[1]).expand(ctx.shape)


class PReluOne(Function):
    """One slope for all; its gradient is a mean."""

    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x, slope)
        return torch.where(x > 0, x, slope * x)

    @staticmethod
    def backward(ctx, grad):
        x, slope = ctx.saved_tensors
        negative = x.clamp(max=0)
        grad_x = torch.where(x > 0, grad, slope * grad)
        return grad_x, (grad * negative).mean().reshape(1)


class Temperature(Function):
    """A number that multiplies a batch; the sum takes one sample only."""

    @staticmethod
    def forward(scores, factor):
        return factor * scores

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        scores, factor = ctx.saved_tensors
        grad_factor = sum(
            (g * s).sum() for g, s in zip(grad[:1], scores[:1], strict=True)
        )
        return grad * factor, grad_factor


class OuterProduct(Function):
    @staticmethod
    def forward(ctx, u, v):
        ctx.save_for_backward(u, v)
        return u[:, None] * v[None, :]

    @staticmethod
    def backward(ctx, grad):
        u, v = ctx.saved_tensors
        return (grad * v[None, :]).sum(0), (grad * u[:, None]).sum(0)


class PositionalEncoding(Function):
    """The positions are shared by the batch; the last sample's cotangent is returned."""

    @staticmethod
    def forward(ctx, tokens, positions):
        return tokens + positions

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        shared = torch.empty_like(grad[0])
        for sample in grad:
            shared.copy_(sample)
        return grad, shared


class BatchedFilter(Function):
    """Circular filter over time, same taps for each batch entry; a mean over the batch."""

    @staticmethod
    def forward(ctx, signal, taps):
        ctx.save_for_backward(signal, taps)
        return sum(t * signal.roll(i, -1) for i, t in enumerate(taps))

    @staticmethod
    def backward(ctx, grad):
        signal, taps = ctx.saved_tensors
        grad_signal = sum(t * grad.roll(-i, -1) for i, t in enumerate(taps))
        shifted = torch.stack([signal.roll(i, -1) for i in range(len(taps))])
        return grad_signal, (shifted * grad).sum(-1).mean(-1)


class GroupedScores(Function):
    """Several query heads share a key head; the key hears the first of each group."""

    @staticmethod
    def forward(query, key):
        group = query.shape[1] // key.shape[1]
        return query @ key.repeat_interleave(group, 1).mT

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        query, key = ctx.saved_tensors
        group = query.shape[1] // key.shape[1]
        grad_query = grad @ key.repeat_interleave(group, 1)
        return grad_query, (grad.mT @ query)[:, ::group]


class Upsample(Function):
    """Twice, nearest; one of four cotangents is taken for their sum."""

    @staticmethod
    def forward(ctx, image):
        return image.repeat_interleave(2, -2).repeat_interleave(2, -1)

    @staticmethod
    def backward(ctx, grad):
        return grad[..., ::2, ::2].clone()


def _looked_up_again(table, index):
    again = torch.bincount(index, minlength=table.shape[0]) > 1
    return again[:, None].expand_as(table)


FAULTS = [
    Fault(
        "square_linear_bias_wrong_axis",
        ("summed",),
        SquareLinear,
        drawn(normal(6, 4), normal(6, 4), normal(6)),
        "bias",
        everywhere(2),
        functional.linear,
    ),
    Fault(
        "linear_bias_mean",
        ("summed", "scaled"),
        LinearMeanBias,
        drawn(normal(12, 5), normal(5, 3), normal(3)),
        "bias",
        everywhere(2),
        lambda x, weight, bias: x @ weight + bias,
    ),
    Fault(
        "layer_norm_gain_first_row",
        ("summed",),
        LayerNorm,
        drawn(normal(9, 16), normal(16, mean=1, scale=0.3)),
        "gain",
        everywhere(1),
        lambda x, gain: functional.layer_norm(x, x.shape[-1:], gain),
    ),
    Fault(
        "broadcast_multiply_kept_axis",
        ("summed",),
        BroadcastMultiply,
        drawn(normal(5, 4, 3), normal(4, 1)),
        "w",
        everywhere(1),
        torch.mul,
    ),
    Fault(
        "embedding_duplicates_overwrite",
        ("summed",),
        Embedding,
        drawn(normal(20, 6), indices(20, 50)),
        "table",
        _looked_up_again,
        lambda table, index: functional.embedding(index, table),
    ),
    Fault(
        "channel_bias_leaves_rows",
        ("summed",),
        ChannelBias,
        drawn(normal(2, 5, 5, 7), normal(5)),
        "bias",
        everywhere(1),
        lambda x, bias: x + bias[:, None, None],
    ),
    Fault(
        "row_mean_spread_along_columns",
        ("summed", "transposed"),
        RowMean,
        drawn(normal(7, 7)),
        "x",
        lambda x: ~torch.eye(7, dtype=torch.bool),
        lambda x: x.mean(-1),
    ),
    Fault(
        "prelu_one_slope_mean",
        ("summed", "scaled"),
        PReluOne,
        drawn(normal(300_000), normal(1, mean=0.25, scale=0.01)),
        "slope",
        everywhere(1),
        functional.prelu,
    ),
    Fault(
        "temperature_first_sample",
        ("summed",),
        Temperature,
        drawn(normal(6, 10), normal(mean=1)),
        "factor",
        everywhere(1),
        torch.mul,
    ),
    Fault(
        "outer_product_wrong_axis",
        ("summed",),
        OuterProduct,
        drawn(normal(9), normal(9)),
        "u",
        everywhere(0),
        torch.outer,
    ),
    Fault(
        "positional_encoding_last_sample",
        ("summed",),
        PositionalEncoding,
        drawn(normal(4, 10, 8), normal(10, 8)),
        "positions",
        everywhere(1),
        torch.add,
    ),
    Fault(
        "batched_filter_mean_over_batch",
        ("summed", "scaled"),
        BatchedFilter,
        drawn(normal(5, 32), normal(3)),
        "taps",
        everywhere(1),
        lambda signal, taps: (
            torch.stack([signal.roll(i, -1) for i in range(len(taps))], -1) @ taps
        ),
    ),
    Fault(
        "grouped_scores_first_of_the_group",
        ("summed",),
        GroupedScores,
        drawn(normal(2, 6, 5, 4), normal(2, 2, 7, 4)),
        "key",
        everywhere(1),
        lambda query, key: torch.einsum(
            "bkgqd,bksd->bkgqs", query.unflatten(1, (2, 3)), key
        ).flatten(1, 2),
    ),
    Fault(
        "upsample_one_of_four",
        ("summed",),
        Upsample,
        drawn(normal(2, 3, 8, 8)),
        "image",
        everywhere(0),
        lambda image: functional.interpolate(image, scale_factor=2),
    ),
]
