"""Faults and right twins for BP102: a second backward is the derivative of backward."""

from __future__ import annotations

import numpy as np
import torch
from planted.member import FLOAT32, fault, normal, phases, twin, uniform
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# ----------------------------------------------------------------------------- faults


@fault(normal(12))
class NumpySine(Function):
    """The factor comes from NumPy: to autograd, a constant."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(np.sin(x.detach().numpy()))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.from_numpy(np.cos(x.detach().numpy()))


@fault(normal(20, dtype=FLOAT32))
class GatedUnit(Function):
    """The gate is saved, which is neither an input nor an output."""

    @staticmethod
    def forward(ctx, x):
        gate = torch.sigmoid(1.7 * x)
        ctx.save_for_backward(x, gate)
        return x * gate

    @staticmethod
    def backward(ctx, g):
        x, gate = ctx.saved_tensors
        return g * gate * (1 + 1.7 * x * (1 - gate))


@fault(normal(15))
class FrozenSlope(Function):
    """The local derivative is computed under no_grad, "to save memory"."""

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        with torch.no_grad():
            slope = 1 - y * y
        return g * slope


@fault(normal(6, 4), normal(4, 5))
class DetachedWeight(Function):
    """The mixed second derivative of a bilinear op is lost."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.data.mT, x.mT @ g


class _CubeBackward(Function):
    @staticmethod
    def forward(ctx, g, x):
        ctx.save_for_backward(g, x)
        return 3 * g * x * x

    @staticmethod
    def backward(ctx, gg):
        g, x = ctx.saved_tensors
        return 3 * gg * x * x, 3 * gg * g * x  # six, it should be


@fault(normal(10))
class Cube(Function):
    """A second backward that somebody wrote by hand, with a slip."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return _CubeBackward.apply(g, x)


@fault(normal(8), normal(8))
class HalfRecomputed(Function):
    """One gradient comes from an inner autograd.grad that builds no graph."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return scale * x.exp()

    @staticmethod
    def backward(ctx, g):
        x, scale = ctx.saved_tensors
        with torch.enable_grad():
            inner = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(inner.exp().sum(), inner)
        return g * scale * slope, g * x.exp()


@fault(normal(9, 6))
class LayerNorm(Function):
    """The spread is saved as a number for each row, without its history."""

    @staticmethod
    def forward(ctx, x):
        rstd = x.var(1, correction=0, keepdim=True).add(1e-6).rsqrt()
        ctx.save_for_backward(x, rstd)
        return (x - x.mean(1, keepdim=True)) * rstd

    @staticmethod
    def backward(ctx, g):
        x, rstd = ctx.saved_tensors
        normed = (x - x.mean(1, keepdim=True)) * rstd
        slope = (g * normed).mean(1, keepdim=True)
        return rstd * (g - g.mean(1, keepdim=True) - normed * slope)


# ------------------------------------------------------------------------------ twins


@twin(normal(12))
class NumpyRefusing(Function):
    """NumPy in backward, and a second derivative is refused."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(np.sinh(x.detach().numpy()))

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.from_numpy(np.cosh(x.numpy()))


@twin(normal(15, dtype=FLOAT32))
class SavedOutput(Function):
    """An output is saved, and autograd knows where it comes from."""

    @staticmethod
    def forward(ctx, x):
        y = torch.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * (1 - y)


class _SquareBackward(Function):
    @staticmethod
    def forward(ctx, g, x):
        ctx.save_for_backward(g, x)
        return 2 * g * x

    @staticmethod
    def backward(ctx, gg):
        g, x = ctx.saved_tensors
        return 2 * gg * x, 2 * gg * g


@twin(normal(10))
class HandWrittenTwice(Function):
    """A backward that is a Function of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return _SquareBackward.apply(g, *ctx.saved_tensors)


@twin(normal(6, 4), normal(4, 4))
class RecomputedWithGraph(Function):
    """Backward runs forward again and differentiates through it."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.tanh(x @ w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        wanted = torch.is_grad_enabled()
        with torch.enable_grad():
            x, w = x.view_as(x), w.view_as(w)
            if not x.requires_grad:
                x.requires_grad_()
            if not w.requires_grad:
                w.requires_grad_()
            y = torch.tanh(x @ w)
            return torch.autograd.grad(y, (x, w), g, create_graph=wanted)


@twin(normal(30))
class DetachedMask(Function):
    """What is detached has no derivative anyway."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, 0.1 * x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        slope = torch.where(x > 0, torch.ones_like(x), 0.1).detach()
        return g * slope


@twin(normal(9))
class SinhWithParts(Function):
    """Intermediates that autograd is told of, as extra outputs."""

    @staticmethod
    def forward(ctx, x):
        up, down = x.exp(), (-x).exp()
        ctx.save_for_backward(up, down)
        return (up - down) / 2, up, down

    @staticmethod
    def backward(ctx, g, g_up, g_down):
        up, down = ctx.saved_tensors
        return g * (up + down) / 2 + g_up * up - g_down * down


@twin(uniform(5, 6, low=0.2, high=2))
class ScratchInBackward(Function):
    """Works in place, on tensors that backward itself has made."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.log()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        quotient = g.clone()
        quotient /= x
        return quotient


@twin(phases(7), phases(7))
class ComplexProduct(Function):
    """Conjugates everywhere, twice."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b.conj(), g * a.conj()


@twin(normal(4, 6))
class Rolled(Function):
    """Linear: backward does not depend on the input, so there is nothing to lose."""

    @staticmethod
    def forward(ctx, x):
        return x.roll(2, -1)

    @staticmethod
    def backward(ctx, g):
        return g.roll(-2, -1)
