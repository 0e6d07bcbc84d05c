"""A term of a sum is missing, or one too many."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, normal, plain, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional


class SelfGated(Function):
    """x softplus(x): the factor's own derivative is left out."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * functional.softplus(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * functional.softplus(x)


class BatchNorm(Function):
    """The batch's statistics are differentiated, but for the deviation's part."""

    @staticmethod
    def forward(ctx, x, eps):
        centred = x - x.mean(0)
        inverse = torch.rsqrt(centred.square().mean(0) + eps)
        y = centred * inverse
        ctx.save_for_backward(y, inverse)
        return y

    @staticmethod
    def backward(ctx, grad):
        _, inverse = ctx.saved_tensors
        return inverse * (grad - grad.mean(0)), None


class RootMeanSquareNorm(Function):
    @staticmethod
    def forward(ctx, x, gain):
        inverse = torch.rsqrt(x.square().mean(-1, keepdim=True))
        y = x * inverse
        ctx.save_for_backward(y, inverse, gain)
        return y * gain

    @staticmethod
    def backward(ctx, grad):
        y, inverse, gain = ctx.saved_tensors
        axes = tuple(range(grad.dim() - 1))
        return grad * gain * inverse, (grad * y).sum(axes)


class SparseRelu(Function):
    """With a penalty on activity that is added on the way back."""

    @staticmethod
    def forward(ctx, x, penalty):
        ctx.save_for_backward(x)
        ctx.penalty = penalty
        return functional.softplus(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.sigmoid(x) + ctx.penalty * x, None


class Moments(Function):
    """Mean and variance of each row; the variance's part is forgotten."""

    @staticmethod
    def forward(ctx, x):
        ctx.width = x.shape[-1]
        return x.mean(-1), x.var(-1, correction=0)

    @staticmethod
    def backward(ctx, grad_mean, grad_variance):
        wide = (grad_mean / ctx.width)[..., None]
        return wide.expand(*grad_mean.shape, ctx.width)


class ResidualGate(Function):
    """a (1 + b)."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a + a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * b, grad * a


class Simplex(Function):
    """Divided by its sum, which is taken for a constant."""

    @staticmethod
    def forward(ctx, x):
        total = x.sum(-1, keepdim=True)
        ctx.save_for_backward(total)
        return x / total

    @staticmethod
    def backward(ctx, grad):
        (total,) = ctx.saved_tensors
        return grad / total


class CentredSquare(Function):
    @staticmethod
    def forward(ctx, x):
        centred = x - x.mean(-1, keepdim=True)
        ctx.save_for_backward(centred)
        return centred**2

    @staticmethod
    def backward(ctx, grad):
        (centred,) = ctx.saved_tensors
        return 2 * grad * centred


class GatedTanh(Function):
    """x tanh(x): one half of the product rule."""

    @staticmethod
    def forward(ctx, x):
        t = x.tanh()
        ctx.save_for_backward(x, t)
        return x * t

    @staticmethod
    def backward(ctx, grad):
        x, t = ctx.saved_tensors
        return grad * x * (1 - t * t)


class QuadraticForm(Function):
    """x A x of each row, with an A that is not symmetric."""

    @staticmethod
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return ((x @ matrix) * x).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        g = grad[:, None]
        return g * (x @ matrix), None


class RunningTotal(Function):
    """Each element and all before it, once more itself."""

    @staticmethod
    def forward(ctx, x):
        return x + x.cumsum(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad.flip(-1).cumsum(-1).flip(-1)


class SkipSilu(Function):
    """A skip connection that forward does not have."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return functional.silu(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * s * (1 + x * (1 - s)) + grad


FAULTS = [
    Fault(
        "self_gated_slope_of_the_gate",
        ("term",),
        SelfGated,
        drawn(normal(130_000)),
        "x",
        everywhere(0),
        lambda x: x * x.exp().log1p(),
    ),
    Fault(
        "batch_norm_deviation_as_constant",
        ("term",),
        BatchNorm,
        drawn(normal(24, 7), 1e-5),
        "x",
        everywhere(0),
        lambda x, eps: functional.batch_norm(x, None, None, training=True, eps=eps),
    ),
    Fault(
        "root_mean_square_norm_projection",
        ("term",),
        RootMeanSquareNorm,
        drawn(normal(3, 4, 16), normal(16)),
        "x",
        everywhere(0),
        lambda x, gain: x * gain / (x * x).mean(-1, keepdim=True).sqrt(),
    ),
    Fault(
        "softplus_with_activity_penalty",
        ("term",),
        SparseRelu,
        drawn(normal(20, 30), 0.01),
        "x",
        everywhere(0),
        lambda x, penalty: x.exp().log1p(),
    ),
    Fault(
        "moments_variance_forgotten",
        ("term",),
        Moments,
        drawn(normal(8, 9)),
        "x",
        everywhere(0),
        lambda x: (x.mean(-1), (x * x).mean(-1) - x.mean(-1) ** 2),
    ),
    Fault(
        "residual_gate_without_the_skip",
        ("term", "factor"),  # b for 1 + b
        ResidualGate,
        drawn(normal(5, 6, 7), normal(5, 6, 7)),
        "a",
        everywhere(0),
        lambda a, b: a * (1 + b),
    ),
    Fault(
        "simplex_sum_as_constant",
        ("term",),
        Simplex,
        drawn(uniform(0.2, 2, 11, 6)),
        "x",
        everywhere(0),
        lambda x: functional.normalize(x, p=1, dim=-1),
    ),
    Fault(
        "centred_square_mean_as_constant",
        ("term",),
        CentredSquare,
        drawn(normal(6, 13)),
        "x",
        everywhere(0),
        lambda x: (x - x.mean(-1, keepdim=True)).square(),
    ),
    Fault(
        "gated_tanh_half_of_the_product",
        ("term",),
        GatedTanh,
        drawn(normal(2, 3, 4, 5)),
        "x",
        everywhere(0),
        lambda x: torch.tanh(x).mul(x),
    ),
    Fault(
        "quadratic_form_one_side",
        ("term",),
        QuadraticForm,
        drawn(normal(10, 5), plain(normal(5, 5))),
        "x",
        everywhere(0),
        lambda x, matrix: torch.einsum("bi,ij,bj->b", x, matrix, x),
    ),
    Fault(
        "running_total_itself_once",
        ("term",),
        RunningTotal,
        drawn(normal(7, 15)),
        "x",
        everywhere(0),
        lambda x: x.cumsum(-1) + x,
    ),
    Fault(
        "silu_with_a_skip",
        ("term",),
        SkipSilu,
        drawn(normal(300, 400)),
        "x",
        everywhere(0),
        lambda x: x * x.sigmoid(),
    ),
]
