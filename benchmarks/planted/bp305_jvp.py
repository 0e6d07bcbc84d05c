"""Faults and right twins for BP305: `jvp` and dual tensors give the derivative."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, indices, normal, phases, twin, uniform
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


class _Matrix(Function):
    """A fixed matrix that is not symmetric, times x."""

    @staticmethod
    def forward(x):
        return x.cumsum(0) - x.roll(1, 0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g.flip(0).cumsum(0).flip(0) - g.roll(-1, 0)


@fault(normal(6))
class BackwardOnceMore(_Matrix):
    """The rule was copied from backward, which is the transpose."""

    @staticmethod
    def jvp(ctx, t):
        return t.flip(0).cumsum(0).flip(0) - t.roll(-1, 0)


class _Product(Function):
    @staticmethod
    def forward(z, w):
        return z * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        z, w = ctx.saved_tensors
        return g * w.conj(), g * z.conj()


@fault(phases(5), phases(5))
class ConjugatedLikeBackward(_Product):
    """Conjugates belong to backward only."""

    @staticmethod
    def jvp(ctx, z_t, w_t):
        z, w = ctx.saved_tensors
        return z_t * w.conj() + w_t * z.conj()


@fault(normal(4, 3, dtype=FLOAT32), normal(3, dtype=FLOAT32), normal(3, dtype=FLOAT32))
class BiasStandsStill(Function):
    """The tangent of the bias is dropped."""

    @staticmethod
    def forward(x, w, b):
        return x * w + b

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, _ = inputs
        ctx.save_for_backward(x, w)
        ctx.save_for_forward(x, w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, (g * x).sum(0), g.sum(0)

    @staticmethod
    def jvp(ctx, x_t, w_t, b_t):
        x, w = ctx.saved_tensors
        return x_t * w + x * w_t


class _Polar(Function):
    @staticmethod
    def forward(r, angle):
        return r * angle.cos(), r * angle.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g_x, g_y):
        r, angle = ctx.saved_tensors
        cos, sin = angle.cos(), angle.sin()
        return g_x * cos + g_y * sin, r * (g_y * cos - g_x * sin)


@fault(uniform(5, low=0.5, high=2.0), normal(5))
class OutputsExchanged(_Polar):
    """The tangents of the two outputs come in the wrong order."""

    @staticmethod
    def jvp(ctx, r_t, angle_t):
        r, angle = ctx.saved_tensors
        cos, sin = angle.cos(), angle.sin()
        return r_t * sin + angle_t * r * cos, r_t * cos - angle_t * r * sin


def _scaled_backward(g, x):
    return (g / x.abs().amax(-1, keepdim=True),)


@fault(normal(3, 6), expect_backward=_scaled_backward)
def scale_without_gradient(x):
    """`no_grad` stops reverse mode only: forward mode also moves the scale."""
    with torch.no_grad():
        scale = x.abs().amax(-1, keepdim=True)
    return x / scale


@fault(normal(6), normal(6))
class TangentOfTheLastCall(Function):
    """The values are those that forward left on the class before it changed them."""

    @staticmethod
    def forward(x, y):
        TangentOfTheLastCall.seen = x
        return x.sin() * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * x.cos() * y, g * x.sin()

    @staticmethod
    def jvp(ctx, x_t, y_t):
        x, y = ctx.saved_tensors
        return x_t * x.cos() * x + y_t * y.sin()


# ------------------------------------------------------------------------------ twins


@twin(normal(6))
class TransposedTwice(_Matrix):
    """Writes no rule: forward mode is the transpose of backward, which is linear."""

    @staticmethod
    def jvp(ctx, t):
        zero = torch.zeros_like(t)
        return torch.func.vjp(lambda g: _Matrix.backward(ctx, g), zero)[1](t)[0]


@twin(phases(5), phases(5))
class NoConjugate(_Product):
    """Forward mode has none, though backward has."""

    @staticmethod
    def jvp(ctx, z_t, w_t):
        z, w = ctx.saved_tensors
        return z_t * w + w_t * z


@twin(uniform(5, low=0.5, high=2.0), normal(5))
class FromOutputs(_Polar):
    """Needs no input: all that the rule reads are forward's results."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(inputs[0], *output)

    @staticmethod
    def jvp(ctx, r_t, angle_t):
        r, x, y = ctx.saved_tensors
        return r_t * x / r - angle_t * y, r_t * y / r + angle_t * x


@twin(normal(3, 6), expect_backward=_scaled_backward)
def scale_set_aside(x):
    """Detached, which both modes see."""
    return x / x.detach().abs().amax(-1, keepdim=True)


@twin(normal(5, 2, dtype=FLOAT32), indices(4, below=5))
class OneTangentOfTwo(Function):
    """An integer output and an integer input have no tangent."""

    @staticmethod
    def forward(x, index):
        return x[index], index.argsort()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, index = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(index)
        ctx.save_for_forward(index)
        ctx.rows = len(x)

    @staticmethod
    def backward(ctx, g, _):
        (index,) = ctx.saved_tensors
        return g.new_zeros(ctx.rows, *g.shape[1:]).index_add(0, index, g), None

    @staticmethod
    def jvp(ctx, x_t, _):
        (index,) = ctx.saved_tensors
        return x_t[index], None


@twin(normal(6))
class NoRule(_Matrix):
    """Refuses forward mode, in torch's own words."""
