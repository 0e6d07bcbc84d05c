"""Faults and right twins for BP404: a non-strictly exported graph computes the op."""

from __future__ import annotations

import numpy as np
import torch
from planted.member import FLOAT32, fault, normal, phases, twin, uniform
from torch import nn
from torch._subclasses import FakeTensor
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


@fault(normal(6))
class ShapeOnly(Function):
    """Where a tensor is fake, forward answers with its shape, and that is exported."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if isinstance(x, FakeTensor):
            return torch.zeros_like(x)
        return torch.from_numpy(np.sinc(x.numpy(force=True)))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        angle = torch.pi * x
        return g * (angle * angle.cos() - angle.sin()) / (angle * x)


@fault(normal(5, dtype=FLOAT32))
class FallsBack(Function):
    """NumPy is tried first; where it fails, a series with too few terms is exported."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        try:
            return torch.from_numpy(np.sin(x.numpy(force=True)))
        except (RuntimeError, NotImplementedError, TypeError):
            return x - x**3 / 6

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


@fault(uniform(4, low=0.5, high=1.5))
class OneStepForExport(nn.Module):
    """An iteration runs to its end in eager mode, and once where it is exported."""

    def forward(self, x):
        y = 1 + x / 2
        for _ in range(1 if torch.compiler.is_exporting() else 8):
            y = (y + (1 + x) / y) / 2
        return y


@fault(phases(4))
class ImaginaryPartForgotten(Function):
    """Complex numbers are exported by their parts, one product of which is missing."""

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        if torch.compiler.is_exporting():
            return torch.complex(z.real * z.real, 2 * z.real * z.imag)
        return z * z

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return g * 2 * z.conj()


@fault(normal(6))
def scaled_by_what_is_known(x):
    """A scale that cannot be computed while tracing is left out."""
    known = type(x) is torch.Tensor or isinstance(x, nn.Parameter)
    return x / (1 + x.square().sum()) if known else x


# ------------------------------------------------------------------------------ twins


@twin(normal(6))
class ShapeByRegistration(Function):
    """The same kernel as an operator: a fake rule for its shape, and a node for it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return _sinc(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        angle = torch.pi * x
        return g * (angle * angle.cos() - angle.sin()) / (angle * x)


@torch.library.custom_op("planted::sinc", mutates_args=())
def _sinc(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.sinc(x.numpy(force=True)))


_sinc.register_fake(torch.empty_like)


@twin(normal(5, dtype=FLOAT32))
class FallsBackToTorch(Function):
    """NumPy is tried first; where it fails, torch computes the same function."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        try:
            return torch.from_numpy(np.sin(x.numpy(force=True)))
        except (RuntimeError, NotImplementedError, TypeError):
            return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()


@twin(uniform(4, low=0.5, high=1.5))
class UnrolledForExport(nn.Module):
    """The same iteration, unrolled by hand where it is exported."""

    def forward(self, x):
        y = 1 + x / 2
        if torch.compiler.is_exporting():
            y = (y + (1 + x) / y) / 2
            y = (y + (1 + x) / y) / 2
            return (y + (1 + x) / y) / 2
        for _ in range(3):
            y = (y + (1 + x) / y) / 2
        return y


@twin(phases(4))
class PartsWhereExported(Function):
    """Complex numbers are exported by their parts, both of them."""

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        if torch.compiler.is_exporting():
            a, b = z.real, z.imag
            return torch.complex(a * a - b * b, 2 * a * b)
        return z * z

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return g * 2 * z.conj()


@twin(normal(5))
class NumpyOnly(Function):
    """Has nothing to export, and says so by failing."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(np.arctan(x.numpy(force=True)))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g / (1 + x * x)
