"""The gradients of two inputs come in the wrong order."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, normal, plain, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional


class Multiply(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * x, grad * y


class Maximum(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a > b)
        return torch.maximum(a, b)

    @staticmethod
    def backward(ctx, grad):
        (first,) = ctx.saved_tensors
        return grad.masked_fill(first, 0), grad.masked_fill(~first, 0)


class SquareMatmul(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.mm(a, b)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        grad_b = torch.mm(a.t(), grad)
        grad_a = torch.mm(grad, b.t())
        return grad_b, grad_a


class SelfAttentionScores(Function):
    @staticmethod
    def forward(ctx, query, key):
        ctx.scale = query.shape[-1] ** -0.5
        weights = torch.softmax(query @ key.mT * ctx.scale, -1)
        ctx.save_for_backward(query, key, weights)
        return weights

    @staticmethod
    def backward(ctx, grad):
        query, key, weights = ctx.saved_tensors
        inner = (grad * weights).sum(-1, keepdim=True)
        scores = weights * (grad - inner) * ctx.scale
        return scores.mT @ query, scores @ key


class ArcTangent(Function):
    """atan2 takes y first; backward was written for (x, y)."""

    @staticmethod
    def forward(y, x):
        return torch.atan2(y, x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        y, x = ctx.saved_tensors
        square = x.square() + y.square()
        return -grad * y / square, grad * x / square


class Lerp(Function):
    @staticmethod
    def forward(ctx, a, b, weight):
        ctx.weight = weight
        return (1 - weight) * a + weight * b

    @staticmethod
    def backward(ctx, grad):
        return ctx.weight * grad, (1 - ctx.weight) * grad, None


class Hypotenuse(Function):
    @staticmethod
    def forward(ctx, a, b):
        length = torch.hypot(a, b)
        ctx.save_for_backward(b, a, length)
        return length

    @staticmethod
    def backward(ctx, grad):
        a, b, length = ctx.saved_tensors
        unit = grad / length
        return unit * a, unit * b


class Reparameterised(Function):
    """mean + exp(log_variance / 2) * noise, with the two gradients exchanged."""

    @staticmethod
    def forward(ctx, mean, log_variance, noise):
        std = (0.5 * log_variance).exp()
        ctx.save_for_backward(std, noise)
        return mean + std * noise

    @staticmethod
    def backward(ctx, grad):
        std, noise = ctx.saved_tensors
        return grad * noise * std / 2, grad, None


class PolarToCartesian(Function):
    @staticmethod
    def forward(ctx, radius, angle):
        x, y = radius * angle.cos(), radius * angle.sin()
        ctx.save_for_backward(radius, x, y)
        return x, y

    @staticmethod
    def backward(ctx, grad_x, grad_y):
        radius, x, y = ctx.saved_tensors
        along = (grad_x * x + grad_y * y) / radius
        round_about = grad_y * x - grad_x * y
        return round_about, along


class Bilinear(Function):
    """The two feature vectors have the same width."""

    @staticmethod
    def forward(left, right, weight):
        return torch.einsum("ni,oij,nj->no", left, weight, right)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        left, right, weight = ctx.saved_tensors
        grad_weight = torch.einsum("no,ni,nj->oij", grad, left, right)
        grad_left = torch.einsum("no,oij,nj->ni", grad, weight, right)
        grad_right = torch.einsum("no,oij,ni->nj", grad, weight, left)
        return grad_right, grad_left, grad_weight


class Normalise(Function):
    """Per channel, with scale and shift: the order of the parameters is taken wrong."""

    @staticmethod
    def forward(ctx, x, shift, scale):
        ctx.save_for_backward(x, scale)
        return x * scale + shift

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        grad_scale = (grad * x).flatten(0, -2).sum(0)
        grad_shift = grad.flatten(0, -2).sum(0)
        return grad * scale, grad_scale, grad_shift


FAULTS = [
    Fault(
        "multiply_own_factor",
        ("swapped", "factor"),
        Multiply,
        drawn(normal(11, 4), normal(11, 4)),
        "x",
        everywhere(0),
        torch.mul,
        also_wrong=("y",),
    ),
    Fault(
        "maximum_mask_for_the_other",
        ("swapped",),
        Maximum,
        drawn(normal(100), normal(100)),
        "a",
        everywhere(0),
        lambda a, b: torch.where(a > b, a, b),
        also_wrong=("b",),
    ),
    Fault(
        "square_matmul_order",
        ("swapped",),
        SquareMatmul,
        drawn(normal(5, 5), normal(5, 5)),
        "a",
        everywhere(0),
        torch.matmul,
        also_wrong=("b",),
    ),
    Fault(
        "attention_query_and_key",
        ("swapped",),
        SelfAttentionScores,
        drawn(normal(2, 4, 6, 8), normal(2, 4, 6, 8)),
        "query",
        everywhere(0),
        lambda query, key: torch.softmax(
            torch.einsum("bhqd,bhkd->bhqk", query, key) / 8**0.5, -1
        ),
        also_wrong=("key",),
    ),
    Fault(
        "arc_tangent_argument_order",
        ("swapped",),
        ArcTangent,
        drawn(normal(3, 4, 5), normal(3, 4, 5)),
        "y",
        everywhere(0),
        torch.atan2,
        also_wrong=("x",),
    ),
    Fault(
        "lerp_weights",
        ("swapped", "scaled"),
        Lerp,
        drawn(normal(25), normal(25), 0.3),
        "a",
        everywhere(0),
        torch.lerp,
        also_wrong=("b",),
    ),
    Fault(
        "hypotenuse_saved_in_the_other_order",
        ("swapped", "factor"),
        Hypotenuse,
        drawn(normal(100_000), normal(100_000)),
        "a",
        everywhere(0),
        lambda a, b: (a * a + b * b).sqrt(),
        also_wrong=("b",),
    ),
    Fault(
        "reparameterised_mean_and_log_variance",
        ("swapped",),
        Reparameterised,
        drawn(normal(10, 6), normal(10, 6, scale=0.5), plain(normal(10, 6))),
        "mean",
        everywhere(0),
        lambda mean, log_variance, noise: mean + log_variance.exp().sqrt() * noise,
        also_wrong=("log_variance",),
    ),
    Fault(
        "polar_to_cartesian_two_outputs",
        ("swapped",),
        PolarToCartesian,
        drawn(uniform(0.5, 2, 8, 3), uniform(-3, 3, 8, 3)),
        "radius",
        everywhere(0),
        lambda radius, angle: (radius * angle.cos(), radius * angle.sin()),
        also_wrong=("angle",),
    ),
    Fault(
        "bilinear_left_and_right",
        ("swapped",),
        Bilinear,
        drawn(normal(6, 5), normal(6, 5), normal(3, 5, 5)),
        "left",
        everywhere(0),
        functional.bilinear,
        also_wrong=("right",),
    ),
    Fault(
        "normalise_shift_and_scale",
        ("swapped",),
        Normalise,
        drawn(normal(4, 5, 7), normal(7), normal(7, mean=1)),
        "shift",
        everywhere(1),
        lambda x, shift, scale: torch.addcmul(shift, x, scale),
        also_wrong=("scale",),
    ),
]
