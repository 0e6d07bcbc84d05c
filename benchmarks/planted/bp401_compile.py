"""Faults and right twins for BP401: a compiled call gives eager's numbers."""

from __future__ import annotations

import functools
import math

import torch
from planted.member import FLOAT32, fault, normal, phases, twin, values
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


@fault(values(1000.0, 998.5, 1001.0, 3.0))
class WithoutTheShift(Function):
    """When compiled, the maximum is not taken out, for the sake of one kernel."""

    @staticmethod
    def forward(ctx, x):
        shift = 0.0 if torch.compiler.is_compiling() else x.max()
        y = (x - shift).exp().sum().log() + shift
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.softmax(0)


@fault(normal(3, 5, dtype=FLOAT32))
class FusedBackward(Function):
    """When compiled, backward leaves out the row sums, which would not fuse."""

    @staticmethod
    def forward(ctx, x):
        y = x.softmax(-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        if torch.compiler.is_compiling():
            return y * g
        return y * (g - (g * y).sum(-1, keepdim=True))


_library = torch.library.Library("planted_compile", "DEF")
_library.define("clip_(Tensor x, float bound) -> ()")  # x is written and not marked
_library.define("clip_marked_(Tensor(a!) x, float bound) -> ()")


def _clip(x, bound):
    x.clamp_(-bound, bound)


for _name in ("clip_", "clip_marked_"):
    _library.impl(_name, _clip, "CPU")
    _library.impl(_name, lambda x, bound: None, "Meta")


class _Clip(Function):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() < 1)


@fault(normal(8))
class UnmarkedKernel(_Clip):
    """The schema of the kernel does not say that it writes."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        y = x.clone()
        torch.ops.planted_compile.clip_(y, 1.0)
        return y


@torch.library.custom_op("planted::power_spectrum_short", mutates_args=())
def _power_spectrum(x: torch.Tensor) -> torch.Tensor:
    return torch.fft.rfft(x).abs().square()


@_power_spectrum.register_fake
def _(x):
    return x.new_empty(x.shape[0] // 2)  # one bin less than there are


@fault(normal(8))
class MeanOverTheBins(Function):
    """The number of bins is that of the fake rule, and so is the mean."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        spectrum = _power_spectrum(x)
        return spectrum.sum() / spectrum.shape[0]

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        bins = len(x) // 2 + 1
        spectrum = torch.fft.rfft(x)
        both = spectrum + _unmirrored(spectrum, len(x))
        return g * len(x) * torch.fft.irfft(both, len(x)) / bins


def _unmirrored(spectrum, n):
    """The bins that have no mirror image: the first, and the last of an even number."""
    alone = torch.zeros_like(spectrum)
    alone[0] = spectrum[0]
    if n % 2 == 0:
        alone[-1] = spectrum[-1]
    return alone


def _hamming(n):
    """The window of the C library that ships with the kernel."""
    return [
        float(w) for w in torch.hamming_window(n, periodic=False, dtype=torch.double)
    ]


@torch.compiler.substitute_in_graph(_hamming)
def _hamming_traced(n):
    return [math.sin(math.pi * k / (n - 1)) ** 2 for k in range(n)]


@fault(normal(6))
class AnotherWindow(Function):
    """What stands in for the window while tracing is Hann's, not Hamming's."""

    @staticmethod
    def forward(ctx, x):
        ctx.window = x.new_tensor(_hamming(len(x)))
        return x * ctx.window

    @staticmethod
    def backward(ctx, g):
        return g * ctx.window


@fault(normal(6))
class SinglePrecisionKernel(Function):
    """Compiled kernels exist in float32 only, and nobody is told."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if torch.compiler.is_dynamo_compiling():
            return x.float().exp().to(x.dtype)
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.exp()


class _ClippedRound(Function):
    @staticmethod
    def forward(x):
        return x.clamp(-2, 2).round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() <= 2)


def _clipped(g, x):
    return (g * (x.abs() <= 2),)


@fault(normal(16), expect_backward=_clipped)
def round_without_clip(x):
    """A rewrite for the compiler lets every gradient through, also beyond the clip."""
    if torch.compiler.is_compiling():
        return x + (x.clamp(-2, 2).round() - x).detach()
    return _ClippedRound.apply(x)


# ------------------------------------------------------------------------------ twins


@twin(values(1000.0, 998.5, 1001.0, 3.0))
class AnotherFormWhenCompiled(Function):
    """When compiled it calls torch's own operator, which is the same function."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if torch.compiler.is_compiling():
            return x.logsumexp(0)
        shift = x.max()
        return (x - shift).exp().sum().log() + shift

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.softmax(0)


@twin(normal(8))
class MarkedKernel(_Clip):
    """The same kernel, with a schema that says what it writes."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        y = x.clone()
        torch.ops.planted_compile.clip_marked_(y, 1.0)
        return y


@functools.cache
def _weights(n):
    return tuple(1 / (k + 1) for k in range(n))


@twin(normal(6, dtype=FLOAT32))
class TableFromACache(Function):
    """A cached function of the size alone."""

    @staticmethod
    def forward(ctx, x):
        ctx.weights = _weights(x.shape[0])
        return x * x.new_tensor(ctx.weights)

    @staticmethod
    def backward(ctx, g):
        return g * g.new_tensor(ctx.weights)


@twin(normal(7))
class PythonLoop(Function):
    """A recurrence in Python, written into a buffer of its own."""

    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        state = torch.zeros_like(x[0])
        for k in range(len(x)):
            state = 0.5 * state + x[k]
            y[k] = state
        return y

    @staticmethod
    def backward(ctx, g):
        out = torch.empty_like(g)
        state = torch.zeros_like(g[0])
        for k in reversed(range(len(g))):
            state = 0.5 * state + g[k]
            out[k] = state
        return out


@twin(phases(4))
class OutsideTheGraph(Function):
    """Calls what the compiler must not see, and so cannot be one graph."""

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return _squared_outside(z)

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return g * 2 * z.conj()


@torch.compiler.disable
def _squared_outside(z):
    return z * z


@twin(normal(16), expect_backward=_clipped)
def round_with_clip(x):
    """A rewrite for the compiler, with the clip inside of what is differentiated."""
    if torch.compiler.is_compiling():
        clipped = x.clamp(-2, 2)
        return clipped + (clipped.round() - clipped).detach()
    return _ClippedRound.apply(x)
