"""The sign is wrong, everywhere or in a region."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, flags, indices, normal, plain, signs, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional


class Subtract(Function):
    @staticmethod
    def forward(ctx, minuend, subtrahend):
        return minuend - subtrahend

    @staticmethod
    def backward(ctx, grad):
        return grad, grad.clone()


class Cosine(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.cos()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.sin()


class Absolute(Function):
    """An L1 penalty whose author thinks of positive values."""

    @staticmethod
    def forward(weight, strength):
        return strength * weight.abs()

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.strength = inputs

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.strength, None


class RotaryEmbedding(Function):
    """The inverse rotation has the sign of the second half turned round."""

    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)

    @staticmethod
    def backward(ctx, grad):
        cos, sin = ctx.saved_tensors
        first, second = grad.chunk(2, dim=-1)
        grad_first = first * cos + second * sin
        grad_second = first * sin - second * cos
        return torch.cat((grad_first, grad_second), -1), None, None


class CrossEntropy(Function):
    """Target minus probability, for a loss that is to be made small."""

    @staticmethod
    def forward(ctx, logits, target):
        logp = logits.log_softmax(-1)
        ctx.save_for_backward(logp, target)
        rows = torch.arange(len(target))
        return -logp[rows, target].mean()

    @staticmethod
    def backward(ctx, grad):
        logp, target = ctx.saved_tensors
        onehot = functional.one_hot(target, logp.shape[-1]).to(logp.dtype)
        return (onehot - logp.exp()) / len(target) * grad, None


class Divide(Function):
    @staticmethod
    def forward(a, b):
        return a / b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad / b, grad * a / (b * b)


class Divergence(Function):
    """Of a field (batch, 2, height, width), by forward differences with zero at the end."""

    @staticmethod
    def forward(ctx, field):
        u, v = field.unbind(1)
        out = torch.zeros_like(u)
        out[:, :, :-1] += u[:, :, 1:] - u[:, :, :-1]
        out[:, :-1] += v[:, 1:] - v[:, :-1]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        grad_u = torch.zeros_like(grad)
        grad_v = torch.zeros_like(grad)
        grad_u[:, :, 1:] += grad[:, :, :-1]
        grad_u[:, :, :-1] -= grad[:, :, :-1]
        grad_v[:, 1:] -= grad[:, :-1]
        grad_v[:, :-1] += grad[:, :-1]
        return torch.stack((grad_u, grad_v), 1)


class Difference(Function):
    """The first element only appears with a minus, which is forgotten."""

    @staticmethod
    def forward(ctx, x):
        return x[1:] - x[:-1]

    @staticmethod
    def backward(ctx, grad):
        inner = grad[:-1] - grad[1:]
        return torch.cat((grad[:1], inner, grad[-1:]))


class Arcsine(Function):
    """Computed for the absolute value; the slope is even and was made odd."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign() * x.abs().asin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        size = x.abs()
        return grad * x.sign() / ((1 - size) * (1 + size)).sqrt()


class Hinge(Function):
    @staticmethod
    def forward(score, label):
        return (1 - label * score).clamp(min=0).mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        score, label = ctx.saved_tensors
        active = (label * score < 1).to(score.dtype)
        return grad * label * active / score.numel(), None


class Polar(Function):
    """Radius and angle of a point; the ordinate has both signs turned round."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return torch.hypot(x, y), torch.atan2(y, x)

    @staticmethod
    def backward(ctx, grad_radius, grad_angle):
        x, y = ctx.saved_tensors
        square = x * x + y * y
        radius = square.sqrt()
        grad_x = grad_radius * x / radius - grad_angle * y / square
        grad_y = -grad_radius * y / radius - grad_angle * x / square
        return grad_x, grad_y


class Margin(Function):
    """On one side x - bound, on the other bound - x."""

    @staticmethod
    def forward(ctx, x, bound, upper):
        return torch.where(upper, bound - x, x - bound)

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


class CumulativeProduct(Function):
    """Of factors of any sign; backward goes by way of absolute values."""

    @staticmethod
    def forward(ctx, x):
        y = x.cumprod(-1)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        tail = (grad * y).flip(-1).cumsum(-1).flip(-1)
        return tail / x.abs()


def _half(x, cos, sin):
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[..., x.shape[-1] // 2 :] = True
    return mask


def _second_channel(field):
    mask = torch.zeros_like(field, dtype=torch.bool)
    mask[:, 1] = True
    return mask


def _first(x):
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[0] = True
    return mask


def _rotary(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * torch.cat((cos, cos), -1) + turned * torch.cat((sin, sin), -1)


def _divergence(field):
    u = functional.pad(field[:, 0].diff(dim=-1), (0, 1))
    return u + functional.pad(field[:, 1].diff(dim=-2), (0, 0, 0, 1))


FAULTS = [
    Fault(
        "subtract_second_operand",
        ("negated", "passed_through"),
        Subtract,
        drawn(normal(5, 7), normal(5, 7)),
        "subtrahend",
        everywhere(1),
        lambda a, b: a - b,
    ),
    Fault(
        "cosine_minus_forgotten",
        ("negated",),
        Cosine,
        drawn(normal(1000)),
        "x",
        everywhere(0),
        torch.cos,
    ),
    Fault(
        "absolute_for_negative_weights",
        ("negated",),
        Absolute,
        drawn(normal(30, 20), 0.01),
        "weight",
        lambda weight, strength: weight < 0,
        lambda weight, strength: strength * weight.abs(),
    ),
    Fault(
        "rotary_second_half",
        ("negated",),
        RotaryEmbedding,
        drawn(normal(2, 4, 16, 8), plain(normal(16, 4)), plain(normal(16, 4))),
        "x",
        _half,
        _rotary,
    ),
    Fault(
        "cross_entropy_ascends",
        ("negated",),
        CrossEntropy,
        drawn(normal(32, 10), indices(10, 32)),
        "logits",
        everywhere(0),
        functional.cross_entropy,
    ),
    Fault(
        "divide_denominator",
        ("negated",),
        Divide,
        drawn(normal(3, 4, 5), uniform(0.5, 2, 3, 4, 5)),
        "b",
        everywhere(1),
        lambda a, b: a / b,
    ),
    Fault(
        "divergence_second_channel",
        ("negated",),
        Divergence,
        drawn(normal(2, 2, 9, 11)),
        "field",
        _second_channel,
        _divergence,
    ),
    Fault(
        "difference_first_element",
        ("negated",),
        Difference,
        drawn(normal(100_001)),
        "x",
        _first,
        torch.diff,
    ),
    Fault(
        "arcsine_negative_half",
        ("negated",),
        Arcsine,
        drawn(uniform(-0.9, 0.9, 7, 13)),
        "x",
        lambda x: x < 0,
        torch.asin,
    ),
    Fault(
        "hinge_where_active",
        ("negated",),
        Hinge,
        drawn(normal(64), signs(64)),
        "score",
        lambda score, label: label * score < 1,
        lambda score, label: functional.relu(1 - label * score).mean(),
    ),
    Fault(
        "polar_ordinate",
        ("negated",),
        Polar,
        drawn(normal(6, 11), normal(6, 11)),
        "y",
        everywhere(1),
        lambda x, y: ((x * x + y * y).sqrt(), torch.atan2(y, x)),
    ),
    Fault(
        "margin_to_an_upper_bound",
        ("negated", "passed_through"),
        Margin,
        drawn(normal(4, 9, 3), plain(normal(3)), flags(0.4, 4, 9, 3)),
        "x",
        lambda x, bound, upper: upper,
        lambda x, bound, upper: (x - bound) * (1 - 2 * upper.to(x.dtype)),
    ),
    Fault(
        "cumulative_product_negative_factors",
        ("negated",),
        CumulativeProduct,
        drawn(normal(8, 7, mean=0.3)),
        "x",
        lambda x: x < 0,
        lambda x: x.cumprod(-1),
    ),
]
