"""Faults and right twins for BP507: under autocast both directions agree on dtypes."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, normal, twin
from torch.amp import custom_bwd, custom_fwd
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

# ----------------------------------------------------------------------------- faults


@fault(normal(2, 3, 4, dtype=FLOAT32), normal(2, 4, 5, dtype=FLOAT32))
class MixedBatches(Function):
    """Saves what it was given, and multiplies it with a cotangent of 16 bits."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.bmm(a, b)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return torch.bmm(g, b.mT), torch.bmm(a.mT, g)


@fault(normal(4, 6, dtype=FLOAT32))
class HardInForwardOnly(Function):
    """Asks for autocast in both directions, and backward runs after it has ended."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if torch.is_autocast_enabled("cpu"):
            return x * (x + 3).clamp(0, 6) / 6
        return torch.nn.functional.silu(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if torch.is_autocast_enabled("cpu"):
            slope = torch.where(x.abs() < 3, x / 3 + 0.5, (x > 0).to(x.dtype))
        else:
            s = x.sigmoid()
            slope = s * (1 + x * (1 - s))
        return g * slope


@fault(normal(4, 6, dtype=FLOAT32), normal(6, 3, dtype=FLOAT32))
class ClippedIn16Bits(Function):
    """Clips in 16 bits; the product is computed again in 32, where nothing is clipped."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return _clipped_product(x, w)

    @staticmethod
    def backward(ctx, g):
        y, pull = torch.func.vjp(_clipped_product, *ctx.saved_tensors)
        return pull(g.to(y.dtype))


def _clipped_product(x, w):
    y = x @ w
    return y.clamp(-1, 1) if y.dtype is torch.bfloat16 else y


@fault(normal(5, 4, dtype=FLOAT32), normal(4, dtype=FLOAT32))
class UnscaledInside(Function):
    """Takes autocast during backward for a sign that the loss was scaled."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w.exp()

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        if torch.is_autocast_enabled("cpu"):
            g = g / 16
        return g * w.exp(), (g * x * w.exp()).sum(0)


@fault(normal(4, 6, dtype=FLOAT32), normal(3, 6, dtype=FLOAT32))
class AnotherTypeWhenCompiled(Function):
    """Returns 16 bits in eager mode, and 32 where it is compiled."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        y = x @ w.T
        return y.float() if torch.compiler.is_compiling() else y

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        g = g.to(w.dtype)
        return g @ w, g.T @ x


@fault(normal(4, 6, dtype=FLOAT32), normal(6, 3, dtype=FLOAT32))
class AgainWithoutAutocast(Function):
    """Computes again outside of autocast, where the epsilon is that of 32 bits."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return _normed_product(x, w)

    @staticmethod
    def backward(ctx, g):
        y, pull = torch.func.vjp(_normed_product, *ctx.saved_tensors)
        return pull(g.to(y.dtype))


def _normed_product(x, w):
    y = x @ w
    return y / (y.abs() + torch.finfo(y.dtype).eps ** 0.25)


# ------------------------------------------------------------------------------ twins


@twin(normal(4, 6, dtype=FLOAT32), normal(6, 3, dtype=FLOAT32))
def checkpointed(x, w):
    """Lets torch's own checkpoint compute again, under forward's settings."""
    return checkpoint(_normed_product, x, w, use_reentrant=False)


@twin(normal(2, 3, 4, dtype=FLOAT32), normal(2, 4, 5, dtype=FLOAT32))
class DecoratedBatches(Function):
    """Backward runs under the autocast that forward saw."""

    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.bmm(a, b)

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return torch.bmm(g, b.mT), torch.bmm(a.mT, g)


@twin(normal(4, 6, dtype=FLOAT32))
class HardOnBothSides(Function):
    """Asks for autocast once, and backward is told the answer."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.hard = torch.is_autocast_enabled("cpu")
        if ctx.hard:
            return x * (x + 3).clamp(0, 6) / 6
        return torch.nn.functional.silu(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if ctx.hard:
            return g * torch.where(x.abs() < 3, x / 3 + 0.5, (x > 0).to(x.dtype))
        s = x.sigmoid()
        return g * s * (1 + x * (1 - s))


@twin(normal(4, 6, dtype=FLOAT32), normal(6, 3, dtype=FLOAT32))
class ClippedAgain(Function):
    """Computes again under the settings of forward."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        ctx.autocast = {
            "device_type": "cpu",
            "enabled": torch.is_autocast_enabled("cpu"),
            "dtype": torch.get_autocast_dtype("cpu"),
            "cache_enabled": torch.is_autocast_cache_enabled(),
        }
        return _clipped_product(x, w)

    @staticmethod
    def backward(ctx, g):
        with torch.autocast(**ctx.autocast):
            return torch.func.vjp(_clipped_product, *ctx.saved_tensors)[1](g)


@twin(normal(4, 6, dtype=FLOAT32), normal(3, 6, dtype=FLOAT32))
class AlwaysIn32Bits(Function):
    """Switches autocast off for itself, so that all it sees are 32 bits."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        with torch.autocast("cpu", enabled=False):
            return x.float() @ w.float().T

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            return g @ w, g.T @ x


@twin(normal(4, 6, dtype=FLOAT32), normal(3, 6, dtype=FLOAT32))
class CastToTheWeight(Function):
    """Undecorated, and casts the cotangent to the type of what it saved."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.T

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        g = g.to(w.dtype)
        return g @ w, g.T @ x
