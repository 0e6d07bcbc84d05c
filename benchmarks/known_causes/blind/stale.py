"""Backward uses a value of another call."""

from __future__ import annotations

from inspect import signature
from typing import ClassVar

import torch
from known_causes.draws import drawn, indices, normal, uniform
from known_causes.fault import Fault
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional


class Relu(Function):
    """The mask is kept by the class."""

    mask: ClassVar[Tensor]

    @staticmethod
    def forward(ctx, x):
        Relu.mask = x > 0
        return x * Relu.mask

    @staticmethod
    def backward(ctx, grad):
        return grad * Relu.mask


_workspace: dict[tuple, Tensor] = {}


class Tanh(Function):
    """The output is kept in a buffer that calls of the same shape share."""

    @staticmethod
    def forward(ctx, x):
        key = (x.shape, x.dtype)
        if key not in _workspace:
            _workspace[key] = torch.empty_like(x)
        ctx.buffer = _workspace[key].copy_(x.tanh())
        return ctx.buffer.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * (1 - ctx.buffer**2)


_transposed: dict[tuple, Tensor] = {}


class Linear(Function):
    """The transposed weight is cached by shape: it is of the first call."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x)
        ctx.key = (weight.shape, weight.dtype)
        if ctx.key not in _transposed:
            _transposed[ctx.key] = weight.detach().clone()
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad @ _transposed[ctx.key], grad.t() @ x


class LogSumExp(Function):
    """The maximum and the sum are left with the class."""

    top: ClassVar[Tensor]
    total: ClassVar[Tensor]

    @staticmethod
    def forward(x):
        LogSumExp.top = x.amax(-1, keepdim=True)
        LogSumExp.total = (x - LogSumExp.top).exp().sum(-1, keepdim=True)
        return (LogSumExp.total.log() + LogSumExp.top).squeeze(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        probs = (x - LogSumExp.top).exp() / LogSumExp.total
        return grad[..., None] * probs


class Normalise(Function):
    """The length is a number in the module, written by each forward."""

    @staticmethod
    def forward(ctx, x):
        global _length  # noqa: PLW0603
        _length = x.norm().item()
        y = x / _length
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return (grad - y * (grad * y).sum()) / _length


_length = 1.0


class Sort(Function):
    """The permutation is kept by the class."""

    order: ClassVar[Tensor]

    @staticmethod
    def forward(ctx, x):
        values, Sort.order = x.sort(-1)
        return values

    @staticmethod
    def backward(ctx, grad):
        return torch.zeros_like(grad).scatter(-1, Sort.order, grad)


_positions: dict[torch.Size, Tensor] = {}


class MaxPool(Function):
    """The places of the maxima are cached by shape, as those of average pooling may be."""

    @staticmethod
    def forward(ctx, x, window):
        blocks = x.unflatten(-1, (-1, window))
        values, places = blocks.max(-1)
        ctx.shape, ctx.blocks = x.shape, blocks.shape
        _positions.setdefault(x.shape, places)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        result = grad.new_zeros(ctx.blocks)
        places = _positions[ctx.shape]
        result.scatter_(-1, places[..., None], grad[..., None])
        return result.reshape(ctx.shape), None


class Attention(Function):
    """The weights lie on the class, for a plot, and are used from there."""

    weights: ClassVar[Tensor]

    @staticmethod
    def forward(ctx, query, key, value):
        ctx.scale = query.shape[-1] ** -0.5
        weights = torch.softmax(query @ key.mT * ctx.scale, -1)
        Attention.weights = weights
        ctx.save_for_backward(query, key, value)
        return weights @ value

    @staticmethod
    def backward(ctx, grad):
        query, key, value = ctx.saved_tensors
        weights = Attention.weights
        grad_weights = grad @ value.mT
        inner = (grad_weights * weights).sum(-1, keepdim=True)
        scores = weights * (grad_weights - inner) * ctx.scale
        return scores @ key, scores.mT @ query, weights.mT @ grad


class Embedding(Function):
    """A list of the looked up indices, of which backward takes the latest."""

    history: ClassVar[list[Tensor]] = []

    @staticmethod
    def forward(ctx, table, index):
        Embedding.history.append(index)
        del Embedding.history[:-4]
        ctx.rows = len(table)
        return table.index_select(0, index)

    @staticmethod
    def backward(ctx, grad):
        result = grad.new_zeros(ctx.rows, grad.shape[-1])
        return result.index_add_(0, Embedding.history[-1], grad), None


_expanded: dict[tuple, Tensor] = {}


class MeanSquare(Function):
    """The cotangent's share of each element is made once for a shape."""

    @staticmethod
    def forward(x):
        return x.square().mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        key = (x.shape, x.dtype)
        if key not in _expanded:
            _expanded[key] = (grad / x.numel()).expand(x.shape)
        return 2 * x * _expanded[key]


class Whiten(Function):
    """Scale and shift per channel; the scale of the latest image is used."""

    scale: ClassVar[Tensor]

    @staticmethod
    def forward(ctx, image, mean, deviation):
        Whiten.scale = deviation.detach().reciprocal()[:, None, None]
        y = (image - mean[:, None, None]) * Whiten.scale
        ctx.save_for_backward(y, deviation)
        return y

    @staticmethod
    def backward(ctx, grad):
        y, deviation = ctx.saved_tensors
        per_channel = -grad.sum((0, 2, 3)) / deviation
        return grad * Whiten.scale, per_channel, -(grad * y).sum((0, 2, 3)) / deviation


def _of_the_first(draws, position):
    """Two calls with other inputs, then backward of the first: the later one shows."""

    def shows(op, seed, dtype):
        args = draws(seed, dtype)
        first = op(*args)
        op(*draws(seed + 1, dtype))
        generator = torch.Generator().manual_seed(seed)
        weights = torch.randn(first.shape, generator=generator).to(first.dtype)
        return torch.autograd.grad(first, args[position], weights)[0]

    return shows


def _of_the_second(draws, position):
    """A whole call with other inputs, then the one that is looked at."""

    def shows(op, seed, dtype):
        before = op(*draws(seed, dtype))
        before.backward(torch.full_like(before, 0.3))
        args = draws(seed + 1000, dtype)
        result = op(*args)
        generator = torch.Generator().manual_seed(seed)
        weights = torch.randn(result.shape, generator=generator).to(result.dtype)
        return torch.autograd.grad(result, args[position], weights)[0]

    return shows


def _fault(name, function, draws, wrong_input, reference, *, first_call=False):
    """A stale value, of a later call's forward or of the first call."""
    names = [n for n in signature(function.forward).parameters if n != "ctx"]
    show = _of_the_second if first_call else _of_the_first
    return Fault(
        name,
        ("stale",),
        function,
        draws,
        wrong_input,
        None,
        reference,
        shows=show(draws, names.index(wrong_input)),
    )


FAULTS = [
    _fault("relu_mask_of_the_class", Relu, drawn(normal(400)), "x", functional.relu),
    _fault("tanh_shared_buffer", Tanh, drawn(normal(60, 2000)), "x", torch.tanh),
    _fault(
        "linear_cached_weight",
        Linear,
        drawn(normal(7, 5), normal(4, 5)),
        "x",
        functional.linear,
        first_call=True,
    ),
    _fault(
        "log_sum_exp_maximum_of_the_class",
        LogSumExp,
        drawn(normal(3, 4, 11)),
        "x",
        lambda x: x.logsumexp(-1),
    ),
    _fault(
        "normalise_length_of_the_module",
        Normalise,
        drawn(normal(15)),
        "x",
        lambda x: functional.normalize(x, dim=0),
    ),
    _fault(
        "sort_order_of_the_class",
        Sort,
        drawn(normal(6, 20)),
        "x",
        lambda x: x.sort(-1).values,
    ),
    _fault(
        "max_pool_cached_places",
        MaxPool,
        drawn(normal(2, 3, 32), 4),
        "x",
        functional.max_pool1d,
        first_call=True,
    ),
    _fault(
        "attention_weights_of_the_class",
        Attention,
        drawn(normal(2, 2, 5, 4), normal(2, 2, 6, 4), normal(2, 2, 6, 4)),
        "value",
        functional.scaled_dot_product_attention,
    ),
    _fault(
        "embedding_latest_index",
        Embedding,
        drawn(normal(9, 4), indices(9, 13)),
        "table",
        lambda table, index: functional.embedding(index, table),
    ),
    _fault(
        "mean_square_cached_cotangent",
        MeanSquare,
        drawn(normal(8, 9)),
        "x",
        lambda x: (x * x).mean(),
        first_call=True,
    ),
    _fault(
        "whiten_scale_of_the_class",
        Whiten,
        drawn(normal(2, 3, 5, 6), normal(3), uniform(0.5, 2, 3)),
        "image",
        lambda image, mean, deviation: (
            (image - mean.view(-1, 1, 1)) / deviation.view(-1, 1, 1)
        ),
    ),
]
