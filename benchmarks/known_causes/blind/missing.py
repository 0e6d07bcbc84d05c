"""The gradient is zero or None, everywhere or in a region."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, flags, normal, plain
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

BLOCK = 1024


class BlockedSilu(Function):
    """Backward runs over whole blocks and forgets the tail."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        result = torch.zeros_like(x)
        whole = x.numel() // BLOCK * BLOCK
        gate = torch.sigmoid(x[:whole])
        result[:whole] = grad[:whole] * gate * (1 + x[:whole] * (1 - gate))
        return result


class LinearWithoutBiasGradient(Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, grad.t() @ x, None


class BatchedMatmul(Function):
    """The grid of the second kernel has one batch entry."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.bmm(a, b)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        grad_b = torch.zeros_like(b)
        for entry in range(1):
            grad_b[entry] = a[entry].t() @ grad[entry]
        return torch.bmm(grad, b.mT), grad_b


class InterleavedRotation(Function):
    """Pairs (even, odd) are rotated; backward writes the even ones only."""

    @staticmethod
    def forward(x, cos, sin):
        even, odd = x[..., 0::2], x[..., 1::2]
        out = torch.empty_like(x)
        out[..., 0::2] = even * cos - odd * sin
        out[..., 1::2] = even * sin + odd * cos
        return out

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, cos, sin = inputs
        ctx.save_for_backward(cos, sin)

    @staticmethod
    def backward(ctx, grad):
        cos, sin = ctx.saved_tensors
        result = torch.zeros_like(grad)
        result[..., 0::2] = grad[..., 0::2] * cos + grad[..., 1::2] * sin
        return result, None, None


class DampedWhereMasked(Function):
    """Masked positions are damped, not dropped; backward drops them."""

    @staticmethod
    def forward(scores, mask):
        return torch.where(mask, 0.1 * scores, functional.softplus(scores))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        scores, mask = ctx.saved_tensors
        return (grad * torch.sigmoid(scores)).masked_fill(mask, 0), None


class Elu(Function):
    """Backward is that of relu."""

    @staticmethod
    def forward(ctx, x, alpha):
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, alpha * torch.expm1(x))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x > 0), None


class Sine(Function):
    """A loop from one."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        result = torch.zeros_like(x)
        torch.mul(grad[1:], x[1:].cos(), out=result[1:])
        return result


class PRelu(Function):
    """The slopes are taken for constants."""

    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x, slope)
        return torch.where(x >= 0, x, x * slope.view(1, -1, 1, 1))

    @staticmethod
    def backward(ctx, grad):
        x, slope = ctx.saved_tensors
        grad_x = torch.where(x >= 0, grad, grad * slope.view(1, -1, 1, 1))
        return grad_x, torch.zeros_like(slope)


class WideSoftmax(Function):
    """One block of 64 columns for a row of 70."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        result = torch.zeros_like(y)
        inner = (grad * y).sum(-1, keepdim=True)
        columns = 1 << (y.shape[-1].bit_length() - 1)
        result[:, :columns] = (y * (grad - inner))[:, :columns]
        return result


class Upsample(Function):
    """Twice, nearest; the last row of the source is left out."""

    @staticmethod
    def forward(ctx, image):
        return image.repeat_interleave(2, -2).repeat_interleave(2, -1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        batch, channels, height, width = grad.shape
        result = grad.new_zeros(batch, channels, height // 2, width // 2)
        for row in range(height // 2 - 1):
            rows = grad[..., 2 * row, :] + grad[..., 2 * row + 1, :]
            result[..., row, :] = rows[..., 0::2] + rows[..., 1::2]
        return result


class MaxAndMean(Function):
    """Of each row; the rows beyond the first eight are never visited."""

    @staticmethod
    def forward(ctx, x):
        top, where = x.max(-1)
        ctx.save_for_backward(where)
        ctx.shape = x.shape
        return top, x.mean(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_top, grad_mean):
        (where,) = ctx.saved_tensors
        rows, columns = ctx.shape
        result = grad_top.new_zeros(rows, columns)
        for start in range(0, rows - rows % 8, 8):
            block = slice(start, start + 8)
            result[block] = grad_mean[block, None] / columns
            result[block].scatter_add_(1, where[block, None], grad_top[block, None])
        return result


class LowerTriangular(Function):
    """The diagonal is left out of the gradient, of the matrix only."""

    @staticmethod
    def forward(matrix, vector):
        return matrix.tril() @ vector

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        matrix, vector = ctx.saved_tensors
        return torch.outer(grad, vector).tril(-1), matrix.tril().t() @ grad


class TopK(Function):
    """Of the k largest, only the first gets its cotangent."""

    @staticmethod
    def forward(ctx, x, k):
        values, places = x.topk(k, -1)
        ctx.save_for_backward(places)
        ctx.shape = x.shape
        return values

    @staticmethod
    def backward(ctx, grad):
        (places,) = ctx.saved_tensors
        result = grad.new_zeros(ctx.shape)
        result.scatter_(-1, places[..., :1], grad[..., :1])
        return result, None


class CausalConvolution(Function):
    """Every channel by its own taps; backward goes no further than the last whole frame."""

    @staticmethod
    def forward(ctx, signal, taps):
        ctx.save_for_backward(signal, taps)
        padded = functional.pad(signal, (taps.shape[-1] - 1, 0))
        return functional.conv1d(padded, taps[:, None].flip(-1), groups=len(taps))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        signal, taps = ctx.saved_tensors
        frames = signal.shape[-1] // 32 * 32
        grad_signal = torch.zeros_like(signal)
        grad_taps = torch.zeros_like(taps)
        for lag in range(taps.shape[-1]):
            later = grad[..., lag:]
            seen = signal[..., : signal.shape[-1] - lag]
            grad_signal[..., : later.shape[-1]] += later * taps[:, lag : lag + 1]
            grad_taps[:, lag] = (later * seen).sum((0, 2))
        grad_signal[..., frames:] = 0
        return grad_signal, grad_taps


def _from(start, dim=-1, step=1):
    """The mask for index `start` and all `step` after it along a dimension."""

    def mask(*args):
        where = torch.zeros_like(args[0], dtype=torch.bool)
        where.movedim(dim, 0)[start::step] = True
        return where

    return mask


def _later_entries(a, b):
    mask = torch.ones_like(b, dtype=torch.bool)
    mask[0] = False
    return mask


def _only_first(x):
    return torch.arange(x.numel()) == 0


def _interleaved(x, cos, sin):
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def _second_to_last_of_top(x, k):
    mask = torch.zeros_like(x, dtype=torch.bool)
    return mask.scatter(-1, x.topk(k, -1).indices[..., 1:], value=True)


def _causal_convolution(signal, taps):
    length = signal.shape[-1]
    lags = range(taps.shape[-1])
    return sum(
        functional.pad(signal, (lag, 0))[..., :length] * taps[:, lag, None]
        for lag in lags
    )


FAULTS = [
    Fault(
        "blocked_silu_tail",
        ("missing",),
        BlockedSilu,
        drawn(normal(100_000)),
        "x",
        _from(100_000 // BLOCK * BLOCK),
        functional.silu,
    ),
    Fault(
        "linear_bias_none",
        ("missing",),
        LinearWithoutBiasGradient,
        drawn(normal(9, 6), normal(4, 6), normal(4)),
        "bias",
        everywhere(2),
        functional.linear,
    ),
    Fault(
        "bmm_batch_after_the_first",
        ("missing",),
        BatchedMatmul,
        drawn(normal(4, 3, 5), normal(4, 5, 2)),
        "b",
        _later_entries,
        lambda a, b: a @ b,
    ),
    Fault(
        "interleaved_rotation_odd",
        ("missing",),
        InterleavedRotation,
        drawn(normal(6, 64), plain(normal(6, 32)), plain(normal(6, 32))),
        "x",
        _from(1, step=2),
        _interleaved,
    ),
    Fault(
        "damped_scores_where_masked",
        ("missing",),
        DampedWhereMasked,
        drawn(normal(40, 50), flags(0.3, 40, 50)),
        "scores",
        lambda scores, mask: mask,
        lambda x, mask: torch.where(mask, x / 10, x.exp().log1p()),
    ),
    Fault(
        "elu_negative_part",
        ("missing",),
        Elu,
        drawn(normal(250_000), 1.3),
        "x",
        lambda x, alpha: x <= 0,
        functional.elu,
    ),
    Fault(
        "sine_first_of_a_million",
        ("missing",),
        Sine,
        drawn(normal(1_000_000)),
        "x",
        _only_first,
        torch.sin,
    ),
    Fault(
        "prelu_slopes",
        ("missing",),
        PRelu,
        drawn(normal(8, 4, 6, 6), normal(4, mean=0.25, scale=0.1)),
        "slope",
        everywhere(1),
        functional.prelu,
    ),
    Fault(
        "softmax_columns_beyond_a_power_of_two",
        ("missing",),
        WideSoftmax,
        drawn(normal(12, 70)),
        "x",
        _from(64),
        lambda x: x.softmax(-1),
    ),
    Fault(
        "upsample_last_row",
        ("missing",),
        Upsample,
        drawn(normal(2, 3, 6, 5)),
        "image",
        _from(-1, dim=-2),
        lambda image: functional.interpolate(image, scale_factor=2),
    ),
    Fault(
        "max_and_mean_rows_after_the_last_block",
        ("missing",),
        MaxAndMean,
        drawn(normal(19, 6)),
        "x",
        _from(16, dim=0),
        lambda x: (x.max(-1).values, x.mean(-1)),
    ),
    Fault(
        "lower_triangular_diagonal",
        ("missing",),
        LowerTriangular,
        drawn(normal(12, 12), normal(12)),
        "matrix",
        lambda matrix, vector: torch.eye(len(matrix), dtype=torch.bool),
        lambda matrix, vector: (matrix.tril() * vector).sum(1),
    ),
    Fault(
        "top_k_all_but_the_largest",
        ("missing",),
        TopK,
        drawn(normal(7, 30), 3),
        "x",
        _second_to_last_of_top,
        lambda x, k: x.sort(-1, descending=True).values[..., :k],
    ),
    Fault(
        "causal_convolution_last_frame",
        ("missing",),
        CausalConvolution,
        drawn(normal(2, 3, 77), normal(3, 4)),
        "signal",
        _from(64),
        _causal_convolution,
    ),
]
