"""Faults and right twins for BP406: a traced graph computes from its inputs."""

from __future__ import annotations

import numpy as np
import torch
from planted.member import FLOAT32, fault, normal, twin, uniform
from torch._subclasses import FakeTensor
from torch.autograd import Function
from torch.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing,
    get_proxy_mode,
)

# ----------------------------------------------------------------------------- faults


@fault(normal(6))
class ShapeForTheTracer(Function):
    """Answers a tracer that computes with sizes alone by a tensor without values."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if isinstance(x, FakeTensor):
            return x.new_ones(x.shape)
        return x.expm1()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.exp()


@fault(uniform(5, low=0.2, high=2.0, dtype=FLOAT32))
class OldPathForTraces(Function):
    """A branch for the exporter of another year, with another approximation."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if torch.jit.is_tracing() or get_proxy_mode() is not None:
            return x * (x + 3).clamp(0, 6) / 6
        return torch.nn.functional.silu(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return g * s * (1 + x * (1 - s))


@fault(normal(4))
class ScaleBehindTheTracer(Function):
    """Computes the scale where no tracer looks, since it would not trace once."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        with disable_proxy_modes_tracing():
            scale = 1 + x.square().sum()
        return x / scale

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        scale = 1 + x.square().sum()
        return g / scale - 2 * x * (g * x).sum() / scale**2


@fault(normal(3, 4, dtype=FLOAT32), normal(4, dtype=FLOAT32))
class WeightForgottenInTraces(Function):
    """Backward leaves the weight out where it is recorded, to keep the graph small."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        g_x = torch.outer(g, w)
        if get_proxy_mode() is not None:
            return g_x, torch.zeros_like(w)
        return g_x, x.T @ g


@fault(uniform(5, low=0.2, high=2.0))
def scaled_by_a_number(x):
    """The mean goes through Python; a graph keeps the number that it was traced with."""
    return x * x.detach().ceil().mean().item()


# ------------------------------------------------------------------------------ twins


@twin(normal(6))
class SamePathForTraces(Function):
    """A branch for tracers that spells the function out."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if torch.jit.is_tracing() or get_proxy_mode() is not None:
            return x / (1 + torch.exp(-x))
        return torch.nn.functional.silu(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return g * s * (1 + x * (1 - s))


@twin(normal(5), normal(5))
class SortsByTheInput(Function):
    """Depends on the order of its input's values, all by torch operations."""

    @staticmethod
    def forward(ctx, x, y):
        order = x.argsort()
        ctx.save_for_backward(order)
        return y[order]

    @staticmethod
    def backward(ctx, g):
        (order,) = ctx.saved_tensors
        return torch.zeros_like(g), torch.zeros_like(g).index_copy(0, order, g)


@twin(normal(6, dtype=FLOAT32))
class ConstantTable(Function):
    """A table of its size alone enters the graph as a constant, which it is."""

    @staticmethod
    def forward(ctx, x):
        ctx.table = x.new_tensor(np.hanning(x.shape[0] + 2)[1:-1])
        return x * ctx.table

    @staticmethod
    def backward(ctx, g):
        return g * ctx.table


@twin(normal(7))
def ranked(x):
    """Ranks are whole numbers without a gradient, which a graph recomputes."""
    return x * x.detach().argsort().argsort()


@torch.library.custom_op("planted::bessel", mutates_args=())
def _bessel(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.i0(x.numpy(force=True)))


_bessel.register_fake(torch.empty_like)


@twin(uniform(5, low=0.2, high=2.0))
class NumpyInANode(Function):
    """NumPy inside of an operator, which a graph holds as one node."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return _bessel(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.special.i1(x)
