"""Digits short, and nothing else: a coarser type, cancellation, a rounded constant."""

from __future__ import annotations

import math

import torch
from known_causes.draws import drawn, normal, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional

DOUBLE = (torch.float64,)


class Sigmoid(Function):
    """A kernel of single precision for backward."""

    @staticmethod
    def forward(ctx, x):
        y = torch.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        y = y.float()
        return (grad.float() * y * (1 - y)).to(grad.dtype)


class ErrorFunction(Function):
    """1.1284 for two over the root of pi."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.erf(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 1.1284 * torch.exp(-x * x)


class Tanh(Function):
    """The output is saved in half precision, to save memory."""

    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y.half())
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        y = y.to(grad.dtype)
        return grad * (1 - y * y)


class CosineOfTurns(Function):
    """6.2832 for two pi, in backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.cos(2 * math.pi * x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return -grad * 6.2832 * torch.sin(6.2832 * x)


class Linear(Function):
    """Matmuls of backward run in single precision."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, (grad.float().t() @ x.float()).to(grad.dtype)


class RootMeanSquareNorm(Function):
    """eps is added to the root in backward, and below it in forward."""

    @staticmethod
    def forward(ctx, x, eps):
        ctx.save_for_backward(x)
        ctx.eps = eps
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        root = x.square().mean(-1, keepdim=True).sqrt() + ctx.eps
        along = (grad * x).mean(-1, keepdim=True) / root**2
        return (grad - x * along) / root, None


class CumulativeSum(Function):
    """Accumulated in single precision."""

    @staticmethod
    def forward(x):
        return x.exp().cumsum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        later = grad.float().flip(-1).cumsum(-1).flip(-1)
        return (later * x.float().exp()).to(grad.dtype)


class Mish(Function):
    """The slope through a table of ten bits a unit."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.tanh(functional.softplus(x))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        at = torch.round(x * 1024) / 1024
        t, s = torch.tanh(functional.softplus(at)), torch.sigmoid(at)
        return grad * (t + at * s * (1 - t * t))


class PairProduct(Function):
    """The second factor is saved in half precision."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b.half())
        return torch.einsum("bij,bjk->bik", a, b)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad @ b.to(grad.dtype).mT, a.mT @ grad


class StandardDeviation(Function):
    """The mean is rounded on its way: rows far from zero cancel."""

    @staticmethod
    def forward(ctx, x):
        y = x.std(-1, correction=0)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        mean = x.float().mean(-1, keepdim=True).to(x.dtype)
        return (grad / y)[..., None] * (x - mean) / x.shape[-1]


class LogSumExp(Function):
    """Weights are exponentials of a rounded difference."""

    @staticmethod
    def forward(ctx, x):
        y = x.logsumexp(-1)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        weights = torch.exp((x - y[..., None]).half()).to(grad.dtype)
        return grad[..., None] * weights


FAULTS = [
    Fault(
        "sigmoid_backward_in_single",
        ("precision",),
        Sigmoid,
        drawn(normal(400, 500)),
        "x",
        everywhere(0),
        torch.sigmoid,
        DOUBLE,
    ),
    Fault(
        "error_function_four_digits",
        ("precision", "scaled"),
        ErrorFunction,
        drawn(normal(60)),
        "x",
        everywhere(0),
        torch.erf,
        DOUBLE,
    ),
    Fault(
        "tanh_saved_in_half",
        ("precision",),
        Tanh,
        drawn(normal(9, 12)),
        "x",
        everywhere(0),
        torch.tanh,
    ),
    Fault(
        "cosine_of_turns_short_two_pi",
        ("precision", "scaled"),
        CosineOfTurns,
        drawn(uniform(-1, 1, 3, 4, 5)),
        "x",
        everywhere(0),
        lambda x: (x * 2 * math.pi).cos(),
        DOUBLE,
    ),
    Fault(
        "linear_weight_gradient_in_single",
        ("precision",),
        Linear,
        drawn(normal(30, 20), normal(10, 20)),
        "weight",
        everywhere(1),
        functional.linear,
        DOUBLE,
    ),
    Fault(
        "root_mean_square_norm_eps_on_the_root",
        ("precision",),
        RootMeanSquareNorm,
        drawn(normal(6, 16), 1e-4),
        "x",
        everywhere(0),
        lambda x, eps: x / ((x * x).mean(-1, keepdim=True) + eps).sqrt(),
        DOUBLE,
    ),
    Fault(
        "cumulative_sum_in_single",
        ("precision",),
        CumulativeSum,
        drawn(normal(7, 40)),
        "x",
        everywhere(0),
        lambda x: torch.cumsum(x.exp(), -1),
        DOUBLE,
    ),
    Fault(
        "mish_slope_from_a_table",
        ("precision",),
        Mish,
        drawn(normal(150_000)),
        "x",
        everywhere(0),
        functional.mish,
        DOUBLE,
    ),
    Fault(
        "batched_product_saved_in_half",
        ("precision",),
        PairProduct,
        drawn(normal(3, 4, 6), normal(3, 6, 5)),
        "a",
        everywhere(0),
        torch.matmul,
    ),
    Fault(
        "standard_deviation_rounded_mean",
        ("precision",),
        StandardDeviation,
        drawn(normal(8, 30, mean=1000)),
        "x",
        everywhere(0),
        lambda x: x.var(-1, correction=0).sqrt(),
        DOUBLE,
    ),
    Fault(
        "log_sum_exp_half_difference",
        ("precision",),
        LogSumExp,
        drawn(normal(4, 5, 9)),
        "x",
        everywhere(0),
        lambda x: x.exp().sum(-1).log(),
    ),
]
