"""Backward uses a value of another call."""

from __future__ import annotations

from inspect import signature
from typing import ClassVar

import torch
from known_causes.draws import drawn, keep, normal, plain, uniform
from known_causes.fault import Fault
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional


class Gelu(Function):
    """The input is left with the class."""

    saved: ClassVar[Tensor]

    @staticmethod
    def forward(ctx, x):
        Gelu.saved = x
        return functional.gelu(x)

    @staticmethod
    def backward(ctx, grad):
        x = Gelu.saved
        density = torch.exp(-x * x / 2) / 2.5066282746310002
        return grad * (0.5 * (1 + torch.erf(x / 1.4142135623730951)) + x * density)


_weights: dict[str, Tensor] = {}


class Matmul(Function):
    """A weight by name, for layers that have the same one."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x)
        _weights["weight"] = weight.detach()
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad @ _weights["weight"].t(), x.t() @ grad


_probabilities: list[Tensor] = []


class Softmax(Function):
    """The last of a list that only grows."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        _probabilities.append(y)
        return y.clone()

    @staticmethod
    def backward(ctx, grad):
        y = _probabilities[-1]
        return y * (grad - (grad * y).sum(-1, keepdim=True))


class Dropout(Function):
    """The mask is the class's."""

    mask: ClassVar[Tensor]

    @staticmethod
    def forward(ctx, x, mask):
        Dropout.mask = mask
        return x * mask * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * Dropout.mask * 2, None


_inverse: dict[torch.Size, Tensor] = {}


class RowNormalise(Function):
    """Inverse lengths are computed once a shape and type."""

    @staticmethod
    def forward(ctx, x):
        inverse = 1 / x.norm(dim=-1, keepdim=True)
        y = x * inverse
        ctx.save_for_backward(y)
        ctx.key = (x.shape, x.dtype)
        _inverse.setdefault(ctx.key, inverse)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        inverse = _inverse[ctx.key]
        return inverse * (grad - y * (grad * y).sum(-1, keepdim=True))


_scratch: dict[tuple, Tensor] = {}


class Square(Function):
    """The slope is written into a scratch tensor that the next call writes to."""

    @staticmethod
    def forward(ctx, x):
        key = (x.shape, x.dtype)
        if key not in _scratch:
            _scratch[key] = torch.empty_like(x)
        torch.mul(x, 2, out=_scratch[key])
        ctx.key = key
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad * _scratch[ctx.key]


class ChannelGain(Function):
    """The gain is a global of the module."""

    gain: ClassVar[Tensor]

    @staticmethod
    def forward(ctx, image, gain):
        ctx.save_for_backward(image)
        ChannelGain.gain = gain.detach()
        return image * gain.view(-1, 1, 1)

    @staticmethod
    def backward(ctx, grad):
        (image,) = ctx.saved_tensors
        wide = ChannelGain.gain.view(-1, 1, 1)
        return grad * wide, (grad * image).sum((0, 2, 3))


class TopValues(Function):
    """Places of the largest, in one place for all calls."""

    places: ClassVar[Tensor]

    @staticmethod
    def forward(ctx, x, k):
        values, TopValues.places = x.topk(k, -1)
        ctx.shape = x.shape
        return values

    @staticmethod
    def backward(ctx, grad):
        return grad.new_zeros(ctx.shape).scatter(-1, TopValues.places, grad), None


class Interpolate(Function):
    """The fractions of the grid stay with the class."""

    fraction: ClassVar[Tensor]

    @staticmethod
    def forward(ctx, values, at):
        Interpolate.fraction = at
        return values[:-1] * (1 - at) + values[1:] * at

    @staticmethod
    def backward(ctx, grad):
        at = Interpolate.fraction
        result = grad.new_zeros(len(grad) + 1)
        result[:-1] += grad * (1 - at)
        result[1:] += grad * at
        return result, None


class Softplus(Function):
    """Slopes are computed once for a number of elements."""

    slopes: ClassVar[dict] = {}

    @staticmethod
    def forward(ctx, x, beta):
        key = (x.numel(), x.dtype)
        if key not in Softplus.slopes:
            Softplus.slopes[key] = torch.sigmoid(beta * x).detach()
        ctx.slope = Softplus.slopes[key]
        return functional.softplus(x, beta)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.slope, None


def _two_calls(draws, position):
    """Two calls with other inputs, then backward of the first."""

    def shows(op, seed, dtype):
        args = draws(seed, dtype)
        first = op(*args)
        op(*draws(seed + 1, dtype))
        cotangent = _cotangent(first, seed)
        return torch.autograd.grad(first, args[position], cotangent)[0]

    return shows


def _after_another(draws, position):
    """A whole call with other inputs before the one that is looked at."""

    def shows(op, seed, dtype):
        op(*draws(seed, dtype)).sum().backward()
        args = draws(seed + 300, dtype)
        result = op(*args)
        cotangent = _cotangent(result, seed)
        return torch.autograd.grad(result, args[position], cotangent)[0]

    return shows


def _cotangent(like, seed):
    generator = torch.Generator().manual_seed(seed + 9)
    wide = torch.randn(like.shape, generator=generator, dtype=torch.float64)
    return wide.to(like.dtype)


def _fault(name, function, draws, wrong_input, reference, calls=_two_calls):
    names = [n for n in signature(function.forward).parameters if n != "ctx"]
    return Fault(
        name,
        ("stale",),
        function,
        draws,
        wrong_input,
        None,
        reference,
        shows=calls(draws, names.index(wrong_input)),
    )


FAULTS = [
    _fault("gelu_input_of_the_class", Gelu, drawn(normal(800)), "x", functional.gelu),
    _fault(
        "matmul_weight_of_the_module",
        Matmul,
        drawn(normal(6, 5), normal(5, 3)),
        "x",
        torch.matmul,
    ),
    _fault(
        "softmax_last_of_a_list",
        Softmax,
        drawn(normal(2, 3, 8)),
        "x",
        lambda x: x.softmax(-1),
    ),
    _fault(
        "dropout_mask_of_the_class",
        Dropout,
        drawn(normal(200, 500), keep(0.5, 200, 500)),
        "x",
        lambda x, mask: 2 * mask * x,
    ),
    _fault(
        "row_normalise_first_lengths",
        RowNormalise,
        drawn(normal(14, 6)),
        "x",
        lambda x: functional.normalize(x, dim=-1),
        _after_another,
    ),
    _fault("square_shared_scratch", Square, drawn(normal(33)), "x", torch.square),
    _fault(
        "channel_gain_of_the_class",
        ChannelGain,
        drawn(normal(2, 3, 4, 4), normal(3)),
        "image",
        lambda image, gain: torch.einsum("bchw,c->bchw", image, gain),
    ),
    _fault(
        "top_values_places_of_the_class",
        TopValues,
        drawn(normal(5, 24), 2),
        "x",
        lambda x, k: x.sort(-1, descending=True).values[..., :k],
    ),
    _fault(
        "interpolate_fractions_of_the_class",
        Interpolate,
        drawn(normal(17), plain(uniform(0, 1, 16))),
        "values",
        lambda values, at: torch.lerp(values[:-1], values[1:], at),
    ),
    _fault(
        "softplus_first_slopes",
        Softplus,
        drawn(normal(7, 31), 1.5),
        "x",
        lambda x, beta: (beta * x).exp().log1p() / beta,
        _after_another,
    ),
]
