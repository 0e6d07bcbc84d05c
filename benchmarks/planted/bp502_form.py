"""Faults and right twins for BP502: gradients have their input's shape and dtype."""

from __future__ import annotations

import torch
from planted.member import BFLOAT16, FLOAT32, fault, normal, phases, twin
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


@fault(normal(2, 3, 5), normal(3, 1))
class ChannelBias(Function):
    """Summed over the right dimensions, which are then gone."""

    @staticmethod
    def forward(ctx, x, bias):
        return x + bias

    @staticmethod
    def backward(ctx, g):
        return g, g.sum((0, 2))


@fault(normal(4, 6, dtype=FLOAT32), normal(3, 6, dtype=FLOAT32))
class LinearWeight(Function):
    """(in, out) for a weight of (out, in)."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.mT

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, x.mT @ g


@fault(normal(4, 3, 5))
class FlattenedInside(Function):
    """The kernel works on rows, and its gradient stays flat."""

    @staticmethod
    def forward(ctx, x):
        y = x.reshape(12, 5).softmax(-1)
        ctx.save_for_backward(y)
        return y.reshape(x.shape)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        g = g.reshape(12, 5)
        return y * (g - (g * y).sum(-1, keepdim=True))


@fault(normal(6))
class PaddedTail(Function):
    """The gradient of the padded array, padding and all."""

    @staticmethod
    def forward(ctx, x):
        padded = torch.nn.functional.pad(x, (0, 2))
        ctx.save_for_backward(padded)
        return padded.square().sum()

    @staticmethod
    def backward(ctx, g):
        (padded,) = ctx.saved_tensors
        return 2 * g * padded


@fault(normal(5, 4))
class SingleGradient(Function):
    """A float64 input gets a float32 gradient, which the engine casts silently."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g * x.cos()).float()


@fault(normal(3, 7, dtype=FLOAT32))
class LeftOverRows(Function):
    """A gather whose gradient keeps the rows that were left out of forward."""

    @staticmethod
    def forward(ctx, x):
        return x[:, ::2]

    @staticmethod
    def backward(ctx, g):
        return g.repeat_interleave(2, -1)


# ------------------------------------------------------------------------------ twins


@twin(normal(4, 5), normal(5), normal(1, 1))
class Unreduced(Function):
    """Gradients that are broadcast still: the engine sums them."""

    @staticmethod
    def forward(ctx, x, gain, scale):
        ctx.save_for_backward(x, gain, scale)
        return x * gain * scale

    @staticmethod
    def backward(ctx, g):
        x, gain, scale = ctx.saved_tensors
        return g * gain * scale, g * x * scale, g * x * gain


@twin(normal(6, 5, dtype=BFLOAT16), normal(5, dtype=FLOAT32))
class MixedTypes(Function):
    """Each gradient in the type of its own input."""

    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(x, gain)
        return (x.float() * gain).bfloat16()

    @staticmethod
    def backward(ctx, g):
        x, gain = ctx.saved_tensors
        g = g.float()
        return (g * gain).bfloat16(), (g * x.float()).sum(0)


@twin(phases(5), normal(5))
class RealOfComplex(Function):
    """A real gradient for the real one of two factors."""

    @staticmethod
    def forward(ctx, z, w):
        ctx.save_for_backward(z, w)
        return z * w

    @staticmethod
    def backward(ctx, g):
        z, w = ctx.saved_tensors
        return g * w, (g * z.conj()).real


@twin(normal(4, 3), normal(3, 4))
class ForeignLayout(Function):
    """Gradients with other strides than their inputs, expanded ones among them."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.shapes = (a.shape, b.shape)
        return a.sum() + 2 * b.sum(0)

    @staticmethod
    def backward(ctx, g):
        shape_a, shape_b = ctx.shapes
        return g.sum().expand(shape_a), (2 * g).expand(shape_b)


@twin(normal(), normal(1))
class Scalars(Function):
    """No dimensions, and one of size one."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b.squeeze()

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b.squeeze(), (g * a).reshape(1)


@twin(normal(3, 6, 2))
class Permuted(Function):
    """The gradient of a permuted input, brought back."""

    @staticmethod
    def forward(ctx, x):
        return x.permute(2, 0, 1).cumsum(0)

    @staticmethod
    def backward(ctx, g):
        return g.flip(0).cumsum(0).flip(0).permute(1, 2, 0)
