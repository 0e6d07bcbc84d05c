"""The gradient is zero or None, everywhere or in a region."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, flags, indices, normal, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional


class Exponential(Function):
    """One block of threads a row: columns beyond its 256 are left as they were."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        result = torch.zeros_like(grad)
        result[:, :256] = grad[:, :256] * y[:, :256]
        return result


class LayerNorm(Function):
    """Written for a gain that is a constant."""

    @staticmethod
    def forward(ctx, x, gain):
        centred = x - x.mean(-1, keepdim=True)
        inverse = torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
        y = centred * inverse
        ctx.save_for_backward(y, inverse, gain)
        return y * gain

    @staticmethod
    def backward(ctx, grad):
        y, inverse, gain = ctx.saved_tensors
        g = grad * gain
        along = (g * y).mean(-1, keepdim=True)
        return inverse * (g - g.mean(-1, keepdim=True) - y * along), None


class CumulativeSum(Function):
    """From the right, one too early."""

    @staticmethod
    def forward(ctx, x):
        return x.cumsum(-1)

    @staticmethod
    def backward(ctx, grad):
        width = grad.shape[-1]
        result = torch.zeros_like(grad)
        for column in range(width - 1):
            result[..., column] = grad[..., column:].sum(-1)
        return result


class Embedding(Function):
    """Row 0 is a padding for backward, and for forward it is not."""

    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(index)
        ctx.rows = table.shape[0]
        return table[index]

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        used = index != 0
        result = grad.new_zeros(ctx.rows, grad.shape[-1])
        return result.index_add(0, index[used], grad[used]), None


class Branch(Function):
    """Two formulas, of which one has a backward."""

    @staticmethod
    def forward(ctx, x, smooth):
        ctx.save_for_backward(x, smooth)
        return torch.where(smooth, functional.softplus(x), x * x)

    @staticmethod
    def backward(ctx, grad):
        x, smooth = ctx.saved_tensors
        return grad * torch.where(smooth, torch.sigmoid(x), 0), None


class Triples(Function):
    """Neighbours in threes, weighted 1, 2, 1; the third is not written."""

    @staticmethod
    def forward(ctx, x):
        return x[..., 0::3] + 2 * x[..., 1::3] + x[..., 2::3]

    @staticmethod
    def backward(ctx, grad):
        result = grad.new_zeros(*grad.shape[:-1], 3 * grad.shape[-1])
        result[..., 0::3] = grad
        result[..., 1::3] = 2 * grad
        return result


class Linear(Function):
    """A loop over all weights but one."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        full = (grad.t() @ x).reshape(-1)
        flat = torch.zeros_like(full)
        count = weight.numel() - 1
        flat[:count] = full[:count]
        return grad @ weight, flat.view_as(weight)


class Product(Function):
    """y / x, guarded against a division by zero."""

    @staticmethod
    def forward(ctx, x):
        y = x.prod(-1)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        others = torch.where(x == 0, 0, y[..., None] / x)
        return grad[..., None] * others


class Softplus(Function):
    """Where it is nearly flat, it is taken for flat."""

    @staticmethod
    def forward(ctx, x, floor):
        ctx.save_for_backward(x)
        ctx.floor = floor
        return functional.softplus(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.sigmoid(x) * (x > ctx.floor), None


class HeadProjection(Function):
    """Each head by a matrix of its own; a launch for two of the four heads."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.einsum("bhtd,hde->bhte", x, weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_weight = torch.zeros_like(weight)
        for head in range(len(weight) // 2):
            grad_weight[head] = torch.einsum("btd,bte->de", x[:, head], grad[:, head])
        return torch.einsum("bhte,hde->bhtd", grad, weight), grad_weight


class Gain(Function):
    """The gain is a tensor now, and was a number."""

    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(gain)
        return x * gain

    @staticmethod
    def backward(ctx, grad):
        (gain,) = ctx.saved_tensors
        return grad * gain, None


class SlidingMaximum(Function):
    """Of three; the last window is never looked at, and what only it takes is left out."""

    @staticmethod
    def forward(ctx, x):
        y, where = x.unfold(-1, 3, 3).max(-1)
        ctx.save_for_backward(where)
        return y

    @staticmethod
    def backward(ctx, grad):
        (where,) = ctx.saved_tensors
        windows = grad.shape[-1]
        result = grad.new_zeros(*grad.shape[:-1], windows, 3)
        last = windows - 1
        result[..., :last, :].scatter_(
            -1, where[..., :last, None], grad[..., :last, None]
        )
        return result.flatten(-2)


def _columns_from(start, argument=0, step=1):
    def mask(*args):
        where = torch.zeros_like(args[argument], dtype=torch.bool)
        where[..., start::step] = True
        return where

    return mask


def _largest_of_the_last_three(x):
    mask = torch.zeros_like(x, dtype=torch.bool)
    end = x[..., -3:]
    mask[..., -3:] = end == end.amax(-1, keepdim=True)
    return mask


def _one_row(table, index):
    mask = torch.zeros_like(table, dtype=torch.bool)
    mask[0] = True
    return mask


def _last_weight(x, weight):
    mask = torch.zeros_like(weight, dtype=torch.bool)
    mask[-1, -1] = True
    return mask


def _later_heads(x, weight):
    mask = torch.ones_like(weight, dtype=torch.bool)
    mask[: len(weight) // 2] = False
    return mask


def _with_zeros(seed, dtype):
    """Rows of which every second one has a zero."""
    (x,) = drawn(normal(20, 6))(seed, dtype)
    x = x.detach()
    rows = torch.arange(0, 20, 2)
    x[rows, rows % 6] = 0
    return (x.requires_grad_(),)


FAULTS = [
    Fault(
        "exponential_columns_beyond_the_block",
        ("missing",),
        Exponential,
        drawn(normal(400, 300)),
        "x",
        _columns_from(256),
        torch.exp,
    ),
    Fault(
        "layer_norm_gain_none",
        ("missing",),
        LayerNorm,
        drawn(normal(3, 5, 16), normal(16)),
        "gain",
        everywhere(1),
        lambda x, gain: functional.layer_norm(x, (16,), gain),
    ),
    Fault(
        "cumulative_sum_last_column",
        ("missing",),
        CumulativeSum,
        drawn(normal(7, 12)),
        "x",
        _columns_from(-1),
        lambda x: x.cumsum(-1),
    ),
    Fault(
        "embedding_row_taken_for_padding",
        ("missing",),
        Embedding,
        drawn(normal(6, 5), indices(6, 40)),
        "table",
        _one_row,
        lambda table, index: functional.embedding(index, table),
    ),
    Fault(
        "branch_without_backward",
        ("missing",),
        Branch,
        drawn(normal(200, 600), flags(0.7, 200, 600)),
        "x",
        lambda x, smooth: ~smooth,
        lambda x, smooth: torch.where(smooth, x.exp().log1p(), x**2),
    ),
    Fault(
        "triples_third_of_each",
        ("missing",),
        Triples,
        drawn(normal(4, 2, 18)),
        "x",
        _columns_from(2, step=3),
        lambda x: (x.unflatten(-1, (-1, 3)) * torch.tensor([1, 2, 1])).sum(-1),
    ),
    Fault(
        "linear_last_weight",
        ("missing",),
        Linear,
        drawn(normal(16, 50), normal(30, 50)),
        "weight",
        _last_weight,
        functional.linear,
    ),
    Fault(
        "product_at_zero",
        ("missing",),
        Product,
        _with_zeros,
        "x",
        lambda x: x == 0,
        lambda x: x.prod(-1),
    ),
    Fault(
        "softplus_below_the_floor",
        ("missing",),
        Softplus,
        drawn(normal(300_000), -3.0),
        "x",
        lambda x, floor: x <= floor,
        lambda x, floor: x.exp().log1p(),
    ),
    Fault(
        "head_projection_later_heads",
        ("missing",),
        HeadProjection,
        drawn(normal(2, 4, 3, 5), normal(4, 5, 2)),
        "weight",
        _later_heads,
        torch.matmul,
    ),
    Fault(
        "gain_of_one_number_none",
        ("missing",),
        Gain,
        drawn(normal(45), uniform(1, 2)),
        "gain",
        everywhere(1),
        torch.mul,
    ),
    Fault(
        "sliding_maximum_last_window",
        ("missing",),
        SlidingMaximum,
        drawn(normal(8, 3, 27)),
        "x",
        _largest_of_the_last_three,
        lambda x: functional.max_pool1d(x, 3),
    ),
]
