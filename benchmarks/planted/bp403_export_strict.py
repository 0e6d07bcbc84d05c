"""Faults and right twins for BP403: a strictly exported graph computes the op."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, normal, twin, uniform
from torch import nn
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


class _LayerNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(6, dtype=torch.double) + 0.5)


@fault(normal(3, 6))
class AnotherEpsilon(_LayerNorm):
    """Exporting takes the epsilon of the runtime that it is meant for."""

    def forward(self, x):
        eps = 1e-2 if torch.compiler.is_exporting() else 1e-6
        return nn.functional.layer_norm(x, (6,), self.weight, eps=eps)


@fault(normal(4, 5))
class BiasedForTheTracer(Function):
    """Moments for the tracer, with n where the estimate has n - 1."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if torch.compiler.is_dynamo_compiling():
            return x.square().mean(-1) - x.mean(-1).square()
        return x.var(-1)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        centred = x - x.mean(-1, keepdim=True)
        return g[..., None] * 2 * centred / (x.shape[-1] - 1)


@fault(normal(6, 2))
class EightBits(Function):
    """The exported graph rounds to the grid of the device, which eager never does."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        y = torch.tanh(x)
        if torch.compiler.is_compiling():
            y = torch.round(y * 127) / 127
        return y

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (1 - torch.tanh(x) ** 2)


def _over_largest(g, x):
    return (g / x.abs().max(),)


@fault(normal(5, dtype=FLOAT32), expect_backward=_over_largest)
class ScaleOfTheExample(Function):
    """The scale is asked for once, when it is traced, and is a constant from then on."""

    @staticmethod
    def forward(ctx, x):
        ctx.scale = _largest(x)
        return x / ctx.scale

    @staticmethod
    def backward(ctx, g):
        return g / ctx.scale


@torch._dynamo.assume_constant_result
def _largest(x):
    return float(x.abs().max())


@torch.library.custom_op("planted::valid_windows", mutates_args=())
def _valid_windows(x: torch.Tensor, size: int) -> torch.Tensor:
    return x.unfold(0, size, 1).sum(1)


@_valid_windows.register_fake
def _(x, size):
    return x.new_empty(x.shape[0])  # as if it were padded


@fault(uniform(8, low=1.0, high=2.0))
class MeanOfWindows(Function):
    """The number of windows comes from a fake rule that counts too many."""

    @staticmethod
    def forward(ctx, x):
        ctx.size = len(x)
        sums = _valid_windows(x, 3)
        return sums.sum() / (3 * sums.shape[0])

    @staticmethod
    def backward(ctx, g):
        windows = g.new_ones(ctx.size - 2) * g / (3 * (ctx.size - 2))
        return torch.nn.functional.conv1d(
            windows[None, None], g.new_ones(1, 1, 3), padding=2
        )[0, 0]


# ------------------------------------------------------------------------------ twins


@twin(normal(3, 6))
class OneEpsilon(_LayerNorm):
    """Spells the norm out while exporting, with the same epsilon."""

    def forward(self, x):
        if torch.compiler.is_exporting():
            centred = x - x.mean(-1, keepdim=True)
            variance = centred.square().mean(-1, keepdim=True)
            return centred * (variance + 1e-6).rsqrt() * self.weight
        return nn.functional.layer_norm(x, (6,), self.weight, eps=1e-6)


@twin(normal(4, 5))
class VarianceByMoments(Function):
    """Moments for the tracer, rescaled to the same estimate."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if torch.compiler.is_dynamo_compiling():
            n = x.shape[-1]
            return (x.square().mean(-1) - x.mean(-1).square()) * n / (n - 1)
        return x.var(-1)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        centred = x - x.mean(-1, keepdim=True)
        return g[..., None] * 2 * centred / (x.shape[-1] - 1)


@twin(uniform(8, low=1.0, high=2.0))
class CountedFromTheInput(Function):
    """Counts from its own input, and its kernel has a fake rule that is right."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return _log_windows(x, 3).sum() / (len(x) - 2)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        count = len(x) - 2
        windows = torch.nn.functional.conv1d(
            x.new_ones(1, 1, count), x.new_ones(1, 1, 3), padding=2
        )[0, 0]
        return g * windows / x / count


@torch.library.custom_op("planted::log_windows", mutates_args=())
def _log_windows(x: torch.Tensor, size: int) -> torch.Tensor:
    return x.log().unfold(0, size, 1).sum(1)


@_log_windows.register_fake
def _(x, size):
    return x.new_empty(x.shape[0] - size + 1)


@twin(normal(6, 2, dtype=FLOAT32))
class BranchOnSizes(Function):
    """Chooses between two orders of one sum by the sizes, which are as exported."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        if x.shape[0] > x.shape[1]:
            return x.sum(0).sum(0)
        return x.sum(1).sum(0)

    @staticmethod
    def backward(ctx, g):
        return g.expand(ctx.shape)


@twin(normal(4))
class RefusedByTheTracer(Function):
    """Asks for a value, which export cannot follow."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin() if bool((x > -100).all()) else x.cos()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos()
