"""A factor is missing, one too many, or stands where another belongs."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, flags, normal, plain, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional


class Tanh(Function):
    """1 - y for 1 - y**2."""

    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y)


class Sigmoid(Function):
    """y for y * (1 - y)."""

    @staticmethod
    def forward(ctx, x):
        y = 1 / (1 + torch.exp(-x))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


class ThreeFactors(Function):
    @staticmethod
    def forward(a, b, c):
        return a * b * c

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        a, b, c = ctx.saved_tensors
        return grad * b, grad * a * c, grad * a * b


class WeightedSquaredError(Function):
    @staticmethod
    def forward(ctx, prediction, target, weight):
        error = prediction - target
        ctx.save_for_backward(error, weight)
        return (weight * error.square()).mean()

    @staticmethod
    def backward(ctx, grad):
        error, _ = ctx.saved_tensors
        return grad * 2 * error / error.numel(), None, None


class Divide(Function):
    """-a / b for -a / b**2."""

    @staticmethod
    def forward(a, b):
        return a.div(b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad / b, -grad * a / b


class Power(Function):
    """x**p for x**(p - 1)."""

    @staticmethod
    def forward(ctx, x, exponent):
        y = x**exponent
        ctx.save_for_backward(y)
        ctx.exponent = exponent
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * ctx.exponent * y, None


class MaskedTanh(Function):
    """The mask is applied to the output and forgotten."""

    @staticmethod
    def forward(ctx, x, mask):
        y = torch.tanh(x)
        ctx.save_for_backward(y, mask)
        return y * mask

    @staticmethod
    def backward(ctx, grad):
        y, _ = ctx.saved_tensors
        return grad * (1 - y.square()), None


class InverseRoot(Function):
    """y**2 for y**3."""

    @staticmethod
    def forward(ctx, x):
        y = x.rsqrt()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return -0.5 * grad * y * y


class ScaledLinear(Function):
    """(x * scale) @ weight: the input misses its scale."""

    @staticmethod
    def forward(ctx, x, scale, weight):
        ctx.save_for_backward(x, scale, weight)
        return (x * scale) @ weight

    @staticmethod
    def backward(ctx, grad):
        x, scale, weight = ctx.saved_tensors
        grad_x = grad @ weight.t()
        grad_scale = (grad_x * x).sum(0, keepdim=True)
        return grad_x, grad_scale, (x * scale).t() @ grad


class SquareRoot(Function):
    """1 / (2 x) for 1 / (2 y)."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sqrt()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / (2 * x)


class SwiGlu(Function):
    """The value gets the gate before its sigmoid."""

    @staticmethod
    def forward(gate, value):
        return functional.silu(gate) * value

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        gate, value = ctx.saved_tensors
        s = torch.sigmoid(gate)
        grad_gate = grad * value * s * (1 + gate * (1 - s))
        return grad_gate, grad * gate


class Gaussian(Function):
    """exp(-x**2 / 2): the inner derivative -x is squared away."""

    @staticmethod
    def forward(ctx, x):
        y = torch.exp(-0.5 * x * x)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return -grad * y * x * x


class SoftThreshold(Function):
    """Log beyond one, linear below; beyond one the slope 1/x was left at one over y."""

    @staticmethod
    def forward(ctx, x):
        y = torch.where(x > 1, 1 + x.clamp(min=1).log(), x)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return torch.where(x > 1, grad / y, grad)


class ExponentialWithWeights(Function):
    """Two outputs, of which the first has a broadcast weight that backward forgets."""

    @staticmethod
    def forward(ctx, x, weight):
        y = torch.exp(x)
        ctx.save_for_backward(y, weight)
        ctx.mark_non_differentiable(total := y.sum(-1))
        return weight * y, total

    @staticmethod
    def backward(ctx, grad, _):
        y, _ = ctx.saved_tensors
        return grad * y, None


class GeometricMean(Function):
    """Of each row; the division by the element is forgotten."""

    @staticmethod
    def forward(ctx, x):
        y = x.log().mean(-1, keepdim=True).exp()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return (grad * y / x.shape[-1]).expand_as(x)


class SharpPeak(Function):
    """1 / (1 + x**2): y in place of y**2, only for elements in doubt."""

    @staticmethod
    def forward(ctx, x, doubtful):
        y = 1 / (1 + x * x)
        ctx.save_for_backward(x, y, doubtful)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y, doubtful = ctx.saved_tensors
        return -2 * grad * x * torch.where(doubtful, y, y * y), None


FAULTS = [
    Fault(
        "tanh_square_forgotten",
        ("factor",),
        Tanh,
        drawn(normal(4, 5, 6)),
        "x",
        everywhere(0),
        torch.tanh,
    ),
    Fault(
        "sigmoid_complement_forgotten",
        ("factor",),
        Sigmoid,
        drawn(normal(150_000)),
        "x",
        everywhere(0),
        torch.sigmoid,
    ),
    Fault(
        "three_factors_third_forgotten",
        ("factor",),
        ThreeFactors,
        drawn(normal(8, 5), normal(8, 5), normal(8, 5)),
        "a",
        everywhere(0),
        lambda a, b, c: a * (b * c),
    ),
    Fault(
        "weighted_squared_error_weight_forgotten",
        ("factor",),
        WeightedSquaredError,
        drawn(normal(20, 4), plain(normal(20, 4)), plain(uniform(0.2, 3, 4))),
        "prediction",
        everywhere(0),
        lambda p, target, weight: (weight * (p - target) ** 2).mean(),
    ),
    Fault(
        "divide_denominator_once",
        ("factor",),
        Divide,
        drawn(normal(30), uniform(0.4, 2, 30)),
        "b",
        everywhere(1),
        torch.div,
    ),
    Fault(
        "power_exponent_not_lowered",
        ("factor",),
        Power,
        drawn(uniform(0.3, 2, 5, 12), 2.5),
        "x",
        everywhere(0),
        torch.pow,
    ),
    Fault(
        "masked_tanh_mask_forgotten",
        ("factor",),
        MaskedTanh,
        drawn(normal(25, 40), flags(0.9, 25, 40)),
        "x",
        lambda x, mask: ~mask,
        lambda x, mask: torch.where(mask, x.tanh(), 0),
    ),
    Fault(
        "inverse_root_square_for_cube",
        ("factor",),
        InverseRoot,
        drawn(uniform(0.3, 3, 10)),
        "x",
        everywhere(0),
        torch.rsqrt,
    ),
    Fault(
        "scaled_linear_scale_forgotten",
        ("factor",),
        ScaledLinear,
        drawn(normal(10, 6), normal(1, 6, mean=1, scale=0.5), normal(6, 4)),
        "x",
        everywhere(0),
        lambda x, scale, weight: torch.einsum("ni,ki,io->no", x, scale, weight),
    ),
    Fault(
        "square_root_input_for_output",
        ("factor",),
        SquareRoot,
        drawn(uniform(0.2, 4, 2, 3, 4, 5)),
        "x",
        everywhere(0),
        torch.sqrt,
    ),
    Fault(
        "swiglu_gate_before_its_sigmoid",
        ("factor",),
        SwiGlu,
        drawn(normal(3, 6, 8), normal(3, 6, 8)),
        "value",
        everywhere(1),
        lambda gate, value: gate * gate.sigmoid() * value,
    ),
    Fault(
        "gaussian_inner_derivative_squared",
        ("factor",),
        Gaussian,
        drawn(normal(400)),
        "x",
        everywhere(0),
        lambda x: (-x.square() / 2).exp(),
    ),
    Fault(
        "log_beyond_one_output_for_input",
        ("factor",),
        SoftThreshold,
        drawn(uniform(0.1, 2.5, 1000)),
        "x",
        lambda x: x > 1,
        lambda x: torch.where(x > 1, 1 + x.log(), x),
    ),
    Fault(
        "weighted_exponential_weight_forgotten",
        ("factor",),
        ExponentialWithWeights,
        drawn(normal(6, 7), plain(uniform(0.2, 2, 6, 1))),
        "x",
        everywhere(0),
        lambda x, weight: (x.exp() * weight, x.detach().exp().sum(-1)),
    ),
    Fault(
        "geometric_mean_element_forgotten",
        ("factor",),
        GeometricMean,
        drawn(uniform(0.3, 3, 8, 5)),
        "x",
        everywhere(0),
        lambda x: x.prod(-1, keepdim=True) ** (1 / x.shape[-1]),
    ),
    Fault(
        "lorentzian_square_forgotten_where_doubtful",
        ("factor",),
        SharpPeak,
        drawn(normal(20_000), flags(0.02, 20_000)),
        "x",
        lambda x, doubtful: doubtful,
        lambda x, doubtful: (1 + x.square()).reciprocal(),
    ),
]
