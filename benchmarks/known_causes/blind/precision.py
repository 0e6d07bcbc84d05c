"""Backward is right in structure and loses digits."""

from __future__ import annotations

import math

import torch
from known_causes.draws import drawn, indices, normal, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

DOUBLE = (torch.float64,)
SINGLE = (torch.float32,)


class TanhGelu(Function):
    """sqrt(2 / pi) to four digits, in backward."""

    @staticmethod
    def forward(x):
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + torch.tanh(inner))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        t = torch.tanh(0.7979 * (x + 0.044715 * x**3))
        slope = 0.7979 * (1 + 3 * 0.044715 * x * x)
        return grad * 0.5 * (1 + t + x * (1 - t * t) * slope)


class SineOfTurns(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(math.pi * x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3.1416 * torch.cos(math.pi * x)


class HalfSoftmax(Function):
    """The output is saved in half precision."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y.half())
        return y

    @staticmethod
    def backward(ctx, grad):
        y = ctx.saved_tensors[0].to(grad.dtype)
        return y * (grad - (grad * y).sum(-1, keepdim=True))


class Deviation(Function):
    """The mean of squares minus the square of the mean, in backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.std(-1, correction=0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        mean = x.mean(-1, keepdim=True)
        var = (x * x).mean(-1, keepdim=True) - mean * mean
        return grad[:, None] * (x - mean) / (var.sqrt() * x.shape[-1])


class LayerNorm(Function):
    """eps is added to the deviation, not to the variance."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, correction=0, keepdim=True)
        ctx.save_for_backward(x, weight, mean, var)
        ctx.eps = eps
        return (x - mean) / torch.sqrt(var + eps) * weight + bias

    @staticmethod
    def backward(ctx, grad):
        x, weight, mean, var = ctx.saved_tensors
        rstd = 1 / (var.sqrt() + ctx.eps)
        normed = (x - mean) * (var + ctx.eps).rsqrt()
        wide = grad * weight
        slope = (wide * normed).mean(-1, keepdim=True)
        grad_x = rstd * (wide - wide.mean(-1, keepdim=True) - normed * slope)
        return grad_x, (grad * normed).sum(0), grad.sum(0), None


class Gelu(Function):
    """Forward is exact, backward is that of x * sigmoid(1.702 x)."""

    @staticmethod
    def forward(x):
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(1.702 * x)
        return grad * (gate + 1.702 * x * gate * (1 - gate))


class CrossEntropy(Function):
    """The probabilities are kept in bfloat16, to save memory."""

    @staticmethod
    def forward(ctx, logits, target):
        logp = torch.log_softmax(logits, -1)
        ctx.save_for_backward(logp.exp().bfloat16(), target)
        return functional.nll_loss(logp, target)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        probs, target = ctx.saved_tensors
        result = probs.to(grad.dtype)
        result[torch.arange(len(target)), target] -= 1
        return result * (grad / len(target)), None


class NumericalSoftplus(Function):
    """A central difference with a wide step."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return functional.softplus(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        step = 2e-2
        rise = functional.softplus(x + step) - functional.softplus(x - step)
        return grad * rise / (2 * step)


class PowerOfTwo(Function):
    @staticmethod
    def forward(x):
        return torch.exp2(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y * 0.6931


class Charbonnier(Function):
    """eps inside the root in forward, outside in backward."""

    @staticmethod
    def forward(ctx, x, eps):
        y = torch.sqrt(x * x + eps)
        ctx.save_for_backward(x)
        ctx.eps = eps
        return y

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x / (x.abs() + ctx.eps), None


class Sinc(Function):
    """sin(x) / x; near zero, a series of one term."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x == 0, 1, torch.sin(x) / x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        slope = (x * torch.cos(x) - torch.sin(x)) / (x * x)
        return grad * torch.where(x.abs() < 0.1, -x / 3, slope)


class HalfMatmul(Function):
    """The gradient of the weight is computed in half precision, for speed."""

    @staticmethod
    def forward(x, weight):
        return x @ weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_weight = x.half().t() @ grad.half()
        return grad @ weight.t(), grad_weight.to(weight.dtype)


class LogSigmoid(Function):
    """y * (1 - y) where y is close to one."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(torch.sigmoid(x))
        return functional.logsigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y)


class PairwiseDistance(Function):
    """The difference of the points is taken in single precision."""

    @staticmethod
    def forward(ctx, a, b):
        distance = (a - b).norm(dim=-1)
        ctx.save_for_backward(a, b, distance)
        return distance

    @staticmethod
    def backward(ctx, grad):
        a, b, distance = ctx.saved_tensors
        between = (a.float() - b.float()).to(a.dtype)
        grad_a = between * (grad / distance)[:, None]
        return grad_a, -grad_a


FAULTS = [
    Fault(
        "tanh_gelu_four_digits",
        ("precision",),
        TanhGelu,
        drawn(normal(500)),
        "x",
        everywhere(0),
        lambda x: functional.gelu(x, approximate="tanh"),
        DOUBLE,
    ),
    Fault(
        "sine_of_turns_short_pi",
        ("precision", "scaled"),
        SineOfTurns,
        drawn(normal(6, 7, 8)),
        "x",
        everywhere(0),
        lambda x: (x * math.pi).sin(),
        DOUBLE,
    ),
    Fault(
        "softmax_saved_in_half",
        ("precision",),
        HalfSoftmax,
        drawn(normal(10, 12)),
        "x",
        everywhere(0),
        lambda x: x.softmax(-1),
    ),
    Fault(
        "deviation_cancels",
        ("precision",),
        Deviation,
        drawn(normal(8, 40, mean=150)),
        "x",
        everywhere(0),
        lambda x: x.var(-1, correction=0).sqrt(),
        SINGLE,
    ),
    Fault(
        "layer_norm_eps_outside_the_root",
        ("precision",),
        LayerNorm,
        drawn(normal(5, 24, scale=0.3), normal(24, mean=1), normal(24), 1e-4),
        "x",
        everywhere(0),
        lambda x, weight, bias, eps: functional.layer_norm(
            x, x.shape[-1:], weight, bias, eps
        ),
        DOUBLE,
    ),
    Fault(
        "gelu_sigmoid_approximation",
        ("precision",),
        Gelu,
        drawn(normal(100, 1000)),
        "x",
        everywhere(0),
        functional.gelu,
    ),
    Fault(
        "cross_entropy_bfloat16_probabilities",
        ("precision",),
        CrossEntropy,
        drawn(normal(24, 9), indices(9, 24)),
        "logits",
        everywhere(0),
        functional.cross_entropy,
    ),
    Fault(
        "softplus_wide_difference",
        ("precision",),
        NumericalSoftplus,
        drawn(normal(77)),
        "x",
        everywhere(0),
        lambda x: x.exp().log1p(),
        DOUBLE,
    ),
    Fault(
        "power_of_two_short_logarithm",
        ("precision", "scaled"),
        PowerOfTwo,
        drawn(normal()),
        "x",
        everywhere(0),
        lambda x: (x * math.log(2)).exp(),
        DOUBLE,
    ),
    Fault(
        "charbonnier_eps_outside_the_root",
        ("precision",),
        Charbonnier,
        drawn(uniform(0.3, 2, 4, 3, 10, 10), 1e-3),
        "x",
        everywhere(0),
        lambda x, eps: (x.square() + eps).sqrt(),
        DOUBLE,
    ),
    Fault(
        "sinc_short_series",
        ("precision",),
        Sinc,
        drawn(normal(20_000)),
        "x",
        lambda x: x.abs() < 0.1,
        lambda x: torch.sinc(x / math.pi),
        DOUBLE,
    ),
    Fault(
        "matmul_weight_in_half",
        ("precision",),
        HalfMatmul,
        drawn(normal(50, 12), normal(12, 6)),
        "weight",
        everywhere(1),
        torch.matmul,
    ),
    Fault(
        "log_sigmoid_complement_cancels",
        ("precision",),
        LogSigmoid,
        drawn(uniform(8, 11, 200)),
        "x",
        everywhere(0),
        functional.logsigmoid,
        SINGLE,
    ),
    Fault(
        "pairwise_distance_in_single",
        ("precision",),
        PairwiseDistance,
        drawn(normal(30, 3, mean=50), normal(30, 3, mean=50)),
        "a",
        everywhere(0),
        lambda a, b: (a - b).square().sum(-1).sqrt(),
        DOUBLE,
        also_wrong=("b",),
    ),
]
