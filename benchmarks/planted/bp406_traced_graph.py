"""Faults and right twins for BP406: a traced graph computes from its inputs."""

from __future__ import annotations

import numpy as np
import torch
from planted.member import FLOAT32, fault, normal, phases, twin, uniform
from torch._subclasses import FakeTensor
from torch.autograd import Function
from torch.fx.experimental.proxy_tensor import get_proxy_mode

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


def _quartered(g, x):
    return (0.25 * g * x.cos(),)


@fault(normal(6), expect_backward=_quartered)
def quartered_by_a_node(x):
    """A hook of the node scales the gradient; the graph of forward has no nodes."""
    y = x.sin()
    if y.grad_fn is not None:
        y.grad_fn.register_prehook(lambda g: (0.25 * g[0],))
    return y


_library = torch.library.Library("planted_trace", "DEF")
_library.define("sign(Tensor x) -> Tensor")


class _Sign(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= 1)


def _sign(x):
    return _Sign.apply(x)


_library.impl("sign", _sign, "CompositeImplicitAutograd")


def _hard_tanh(g, x):
    return (g * (x.abs() <= 1),)


@fault(normal(8), expect_backward=_hard_tanh)
def sign_as_composite(x):
    """An operator registered as a composite, which tracers take apart to its forward."""
    return torch.ops.planted_trace.sign(x)


_scales: dict[tuple[int, ...], torch.Tensor] = {}


@fault(phases(4))
class ScaleOfTheTracedValues(Function):
    """A memo by shape, renewed at each call, but not while something is traced."""

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        if get_proxy_mode() is None or tuple(z.shape) not in _scales:
            _scales[tuple(z.shape)] = 1 + z.abs().square().sum()
        return z / _scales[tuple(z.shape)]

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        scale = 1 + z.abs().square().sum()
        return g / scale - 2 * z * (g.conj() * z).real.sum() / scale**2


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


@twin(normal(8), expect_backward=_hard_tanh)
@torch.library.custom_op("planted::sign_whole", mutates_args=())
def sign_whole(x: torch.Tensor) -> torch.Tensor:
    """The same surrogate as an operator that tracers keep whole."""
    return x.sign()


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _sign_backward(ctx, g):
    (x,) = ctx.saved_tensors
    return g * (x.abs() <= 1)


sign_whole.register_fake(torch.empty_like)
sign_whole.register_autograd(_sign_backward, setup_context=_save)


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
