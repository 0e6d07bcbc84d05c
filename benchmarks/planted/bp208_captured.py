"""Faults and right twins for BP208: no tensor that needs a gradient is captured."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, normal, twin
from torch import nn
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


class _Integrate(Function):
    """Twenty Euler steps of a field, adjoint by hand."""

    @staticmethod
    def forward(ctx, state, field):
        states = []
        for _ in range(20):
            states.append(state)
            state = state + 0.05 * field(state)
        ctx.save_for_backward(*states)
        ctx.field = field
        return state.clone()

    @staticmethod
    def backward(ctx, g):
        for state in reversed(ctx.saved_tensors):
            leaf = state.detach().requires_grad_()
            with torch.enable_grad():
                change = ctx.field(leaf)
            (pulled,) = torch.autograd.grad(change, leaf, g)
            g = g + 0.05 * pulled
        return g, None


@fault(normal(3, 4), normal(4, 4))
def integrated(state, w):
    """A solver that is given a function, inside of which hides the weight."""
    return _Integrate.apply(state, lambda y: torch.tanh(y @ w))


_bias = torch.linspace(-1, 1, 6, dtype=torch.float32).requires_grad_()


class _Shifted(Function):
    @staticmethod
    def forward(ctx, x):
        return x + _bias

    @staticmethod
    def backward(ctx, g):
        return g


@fault(normal(5, 6, dtype=FLOAT32))
def shifted(x):
    """A trainable bias of the module's file."""
    return _Shifted.apply(x)


@fault(normal(7, 3))
class GatedLayer(nn.Module):
    """A Function that is defined in forward and reads the layer's parameter."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.rand(3, dtype=torch.double))

    def forward(self, x):
        layer = self

        class Gated(Function):
            @staticmethod
            def forward(ctx, x):
                return x * layer.gate

            @staticmethod
            def backward(ctx, g):
                return g * layer.gate

        return Gated.apply(x)


@fault(normal(8), normal(1))
def tempered(x, temperature):
    """A closure over an argument that needs a gradient."""

    class Tempered(Function):
        @staticmethod
        def forward(ctx, x):
            return torch.tanh(x / temperature)

        @staticmethod
        def backward(ctx, g):
            return g * (1 - torch.tanh(x / temperature) ** 2) / temperature

    return Tempered.apply(x)


_SCALES = {"log": torch.tensor(0.3, dtype=torch.double, requires_grad=True)}


@fault(normal(9))
class ScaledByTable(Function):
    """A learned scale in a dictionary of the file."""

    @staticmethod
    def forward(ctx, x):
        return x * _SCALES["log"].exp()

    @staticmethod
    def backward(ctx, g):
        return g * _SCALES["log"].detach().exp()


# ------------------------------------------------------------------------------ twins

_FILTER = torch.tensor([0.25, 0.5, 0.25], dtype=torch.double)


@twin(normal(2, 1, 9))
class Smoothed(Function):
    """A captured constant."""

    @staticmethod
    def forward(ctx, x):
        return nn.functional.conv1d(x, _FILTER[None, None], padding=1)

    @staticmethod
    def backward(ctx, g):
        return nn.functional.conv1d(g, _FILTER.flip(0)[None, None], padding=1)


_gain = torch.linspace(1, 2, 6, dtype=torch.double).requires_grad_()


class _Scaled(Function):
    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(x, gain)
        return x * gain

    @staticmethod
    def backward(ctx, g):
        x, gain = ctx.saved_tensors
        return g * gain, (g * x).sum(0)


@twin(normal(5, 6))
def scaled(x):
    """A global weight that is handed to apply."""
    return _Scaled.apply(x, _gain)


@twin(normal(5, 6))
def scaled_beside(x):
    """A global weight that autograd sees, beside a Function that does not use it."""
    return Smoothed.apply(x[:, None])[:, 0] * _gain.exp()


@twin(normal(4, 6))
class OnlyItsShape(Function):
    """Reads a global weight's shape, and nothing of its values."""

    @staticmethod
    def forward(ctx, x):
        return x / _gain.numel() ** 0.5

    @staticmethod
    def backward(ctx, g):
        return g / _gain.numel() ** 0.5


@twin(normal(7, 3))
class FrozenStatistics(nn.Module):
    """Buffers, read from outside of apply: they need no gradient."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.arange(3, dtype=torch.double))

    def forward(self, x):
        layer = self

        class Centred(Function):
            @staticmethod
            def forward(ctx, x):
                return (x - layer.mean) / 2

            @staticmethod
            def backward(ctx, g):
                return g / 2

        return Centred.apply(x)


@twin(normal(3, 4), normal(4, 4))
def integrated_with_weight(state, w):
    """A solver whose steps are plain operations: the closure is seen."""
    field = lambda y: torch.tanh(y @ w)  # noqa: E731
    for _ in range(20):
        state = state + 0.05 * field(state)
    return state
