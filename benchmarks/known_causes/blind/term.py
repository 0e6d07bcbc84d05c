"""One term of the gradient is missing, or one is added that does not belong."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, normal, plain, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional


class Softmax(Function):
    """The diagonal of the Jacobian alone."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


class LayerNorm(Function):
    """The mean of the cotangent is not taken off."""

    @staticmethod
    def forward(ctx, x, eps):
        centred = x - x.mean(-1, keepdim=True)
        rstd = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
        normed = centred * rstd
        ctx.save_for_backward(normed, rstd)
        return normed

    @staticmethod
    def backward(ctx, grad):
        normed, rstd = ctx.saved_tensors
        slope = (grad * normed).mean(-1, keepdim=True)
        return rstd * (grad - normed * slope), None


class Entropy(Function):
    """x log x, of which only the logarithm is kept."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return -(x * x.log()).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return -grad.unsqueeze(-1) * x.log()


class DecayedLinear(Function):
    """Adds weight decay to the gradient of the weight."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return functional.linear(x, weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, grad.t() @ x + 1e-2 * weight


class Normalise(Function):
    """No projection: the length is taken for a constant."""

    @staticmethod
    def forward(ctx, x):
        length = x.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(length)
        return x / length

    @staticmethod
    def backward(ctx, grad):
        (length,) = ctx.saved_tensors
        return grad / length


class SineAndCosine(Function):
    """The second output is believed to be unused."""

    @staticmethod
    def forward(x):
        return x.sin(), x.cos()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx, grad_sine, grad_cosine):
        _, cosine = ctx.saved_tensors
        return grad_sine * cosine


class Silu(Function):
    """One half of the product rule."""

    @staticmethod
    def forward(ctx, x):
        gate = torch.sigmoid(x)
        ctx.save_for_backward(gate)
        return x * gate

    @staticmethod
    def backward(ctx, grad):
        (gate,) = ctx.saved_tensors
        return grad * gate


class Centre(Function):
    """The mean is taken for a constant."""

    @staticmethod
    def forward(ctx, x):
        return x - x.mean(0)

    @staticmethod
    def backward(ctx, grad):
        return grad.clone()


class Residual(Function):
    """x + tanh(x) loses the skip connection."""

    @staticmethod
    def forward(ctx, x):
        inner = torch.tanh(x)
        ctx.save_for_backward(inner)
        return x + inner

    @staticmethod
    def backward(ctx, grad):
        (inner,) = ctx.saved_tensors
        return grad * (1 - inner * inner)


class InstanceNorm(Function):
    """The variance is taken for a constant."""

    @staticmethod
    def forward(ctx, image, eps):
        mean = image.mean((2, 3), keepdim=True)
        var = image.var((2, 3), correction=0, keepdim=True)
        rstd = 1 / torch.sqrt(var + eps)
        ctx.save_for_backward(rstd)
        return (image - mean) * rstd

    @staticmethod
    def backward(ctx, grad):
        (rstd,) = ctx.saved_tensors
        return rstd * (grad - grad.mean((2, 3), keepdim=True)), None


class MovingAverage(Function):
    """y[t] = decay * y[t - 1] + x[t]; the carry is dropped between chunks of 16."""

    CHUNK = 16

    @staticmethod
    def forward(ctx, x, decay):
        ctx.decay = decay
        out, state = [], torch.zeros_like(x[0])
        for row in x:
            state = decay * state + row
            out.append(state)
        return torch.stack(out)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        result = torch.empty_like(grad)
        for start in range(0, len(grad), MovingAverage.CHUNK):
            carry = torch.zeros_like(grad[0])
            for t in reversed(
                range(start, min(start + MovingAverage.CHUNK, len(grad)))
            ):
                carry = grad[t] + ctx.decay * carry
                result[t] = carry
        return result, None


class LogSoftmax(Function):
    """The normaliser is taken for a constant."""

    @staticmethod
    def forward(ctx, logits):
        logp = torch.log_softmax(logits, -1)
        ctx.save_for_backward(logp)
        return logp

    @staticmethod
    def backward(ctx, grad):
        return grad.clone()


class SelfProduct(Function):
    """x @ x^T: one of the two places of x."""

    @staticmethod
    def forward(x):
        return x @ x.mT

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad @ x


class FakeQuantise(Function):
    """The scale gets the rounding error, as if x were rounded straight through."""

    @staticmethod
    def forward(ctx, x, scale):
        ratio = x / scale
        whole = ratio.round()
        ctx.save_for_backward(ratio, whole)
        return whole * scale

    @staticmethod
    def backward(ctx, grad):
        ratio, whole = ctx.saved_tensors
        return None, (grad * (whole - ratio)).sum(0)


class CosineSimilarity(Function):
    """The first vector misses what its own length does; the second does not."""

    @staticmethod
    def forward(ctx, a, b):
        lengths = a.norm(dim=-1), b.norm(dim=-1)
        y = (a * b).sum(-1) / (lengths[0] * lengths[1])
        ctx.save_for_backward(a, b, y, *lengths)
        return y

    @staticmethod
    def backward(ctx, grad):
        a, b, y, of_a, of_b = (
            t[..., None] if t.dim() < 2 else t for t in ctx.saved_tensors
        )
        grad = grad[..., None]
        grad_a = grad * b / (of_a * of_b)
        grad_b = grad * (a / (of_a * of_b) - y * b / of_b**2)
        return grad_a, grad_b


def _before_last_chunk(x, decay):
    mask = torch.zeros_like(x, dtype=torch.bool)
    mask[: (len(x) - 1) // 16 * 16] = True
    return mask


def _moving_average(x, decay):
    steps = torch.arange(len(x))
    apart = (steps[:, None] - steps).to(x.dtype)
    return (decay ** apart.clamp(min=0) * (apart >= 0)) @ x


FAULTS = [
    Fault(
        "softmax_diagonal_alone",
        ("term",),
        Softmax,
        drawn(normal(1000, 128)),
        "x",
        everywhere(0),
        lambda x: x.softmax(-1),
    ),
    Fault(
        "layer_norm_mean_of_cotangent",
        ("term",),
        LayerNorm,
        drawn(normal(6, 20), 1e-5),
        "x",
        everywhere(0),
        lambda x, eps: functional.layer_norm(x, x.shape[-1:], eps=eps),
    ),
    Fault(
        "entropy_second_half_of_the_product",
        ("term",),
        Entropy,
        drawn(uniform(0.05, 1.5, 5, 11)),
        "x",
        everywhere(0),
        lambda x: torch.special.entr(x).sum(-1),
    ),
    Fault(
        "linear_with_weight_decay",
        ("term",),
        DecayedLinear,
        drawn(normal(16, 12), normal(10, 12)),
        "weight",
        everywhere(1),
        functional.linear,
    ),
    Fault(
        "normalise_without_projection",
        ("term",),
        Normalise,
        drawn(normal(60, 3)),
        "x",
        everywhere(0),
        lambda x: functional.normalize(x, dim=-1),
    ),
    Fault(
        "sine_and_cosine_second_output",
        ("term",),
        SineAndCosine,
        drawn(normal(45)),
        "x",
        everywhere(0),
        lambda x: (x.sin(), x.cos()),
    ),
    Fault(
        "silu_half_of_the_product",
        ("term",),
        Silu,
        drawn(normal(3, 5, 6, 7)),
        "x",
        everywhere(0),
        functional.silu,
    ),
    Fault(
        "centre_mean_as_constant",
        ("term", "passed_through"),
        Centre,
        drawn(normal(10, 4)),
        "x",
        everywhere(0),
        lambda x: x - x.mean(0, keepdim=True),
    ),
    Fault(
        "residual_without_skip",
        ("term",),
        Residual,
        drawn(normal(120_000)),
        "x",
        everywhere(0),
        lambda x: x.tanh() + x,
    ),
    Fault(
        "instance_norm_variance_as_constant",
        ("term",),
        InstanceNorm,
        drawn(normal(2, 3, 6, 6), 1e-5),
        "image",
        everywhere(0),
        lambda image, eps: functional.instance_norm(image, eps=eps),
    ),
    Fault(
        "moving_average_carry_between_chunks",
        ("term",),
        MovingAverage,
        drawn(normal(40, 3), 0.9),
        "x",
        _before_last_chunk,
        _moving_average,
    ),
    Fault(
        "log_softmax_probabilities_forgotten",
        ("term", "passed_through"),
        LogSoftmax,
        drawn(normal(8, 6)),
        "logits",
        everywhere(0),
        lambda logits: logits - logits.logsumexp(-1, keepdim=True),
    ),
    Fault(
        "gram_matrix_one_place",
        ("term",),
        SelfProduct,
        drawn(normal(2, 5, 4)),
        "x",
        everywhere(0),
        lambda x: torch.einsum("bik,bjk->bij", x, x),
    ),
    Fault(
        "fake_quantise_rounding_error",
        ("term",),
        FakeQuantise,
        drawn(plain(normal(25, 3)), uniform(0.2, 0.5, 3)),
        "scale",
        everywhere(1),
        lambda x, scale: scale * (x / scale).round(),
    ),
    Fault(
        "cosine_similarity_length_of_the_first",
        ("term",),
        CosineSimilarity,
        drawn(normal(9, 6), normal(9, 6)),
        "a",
        everywhere(0),
        lambda a, b: functional.cosine_similarity(a, b, -1),
    ),
]
