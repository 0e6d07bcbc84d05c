"""Faults and right twins for BP302: `torch.func.grad` gives eager's gradient."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, normal, phases, twin, uniform
from torch import nn
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


@fault(normal(8))
class CoarseWhenRecorded(Function):
    """A transform records backward, and there it takes a smooth stand-in of the slope."""

    @staticmethod
    def forward(x):
        return torch.nn.functional.softplus(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            return g * (0.5 + x / (2 * (1 + x.abs())))
        return g * torch.sigmoid(x)


@fault(normal(4, 3, dtype=FLOAT32))
class ScaleSetAside(Function):
    """Inside a transform the scale that forward used is taken to be one."""

    @staticmethod
    def forward(x):
        return x * 3.0

    @staticmethod
    def setup_context(ctx, inputs, output):
        plain = not torch._C._are_functorch_transforms_active()
        ctx.scale = 3.0 if plain else 1.0

    @staticmethod
    def backward(ctx, g):
        return g * ctx.scale


@fault(normal(3, 4), normal(4), normal(3))
class NeedsOfAnother(Function):
    """The bias is asked whether the weight needs a gradient."""

    @staticmethod
    def forward(x, w, b):
        return x @ w + b

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, _ = inputs
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        g_x = torch.outer(g, w) if ctx.needs_input_grad[0] else None
        g_w = x.T @ g if ctx.needs_input_grad[2] else None
        g_b = g if ctx.needs_input_grad[1] else None
        return g_x, g_w, g_b


_SLOPES: dict[int, torch.Tensor] = {}


@fault(uniform(6, low=0.5, high=2.0))
class SlopeByAddress(Function):
    """Forward leaves its slope under the input's id, which a transform wraps anew."""

    @staticmethod
    def forward(x):
        _SLOPES.clear()
        _SLOPES[id(x)] = 1 / x
        return x.log()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.slope = _SLOPES.get(id(inputs[0]), torch.ones_like(output))

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slope


@fault(normal(5), normal(5))
class PrunedByRequiresGrad(Function):
    """Forward remembers who needs a gradient; in a transform it sees plain tensors."""

    _needed = (True, True)

    @staticmethod
    def forward(x, y):
        PrunedByRequiresGrad._needed = (x.requires_grad, y.requires_grad)
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.needed = PrunedByRequiresGrad._needed
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y if ctx.needed[0] else None, g * x if ctx.needed[1] else None


@fault(normal(4, 3))
class InputSetAside(nn.Module):
    """Takes a transform over its weight for a sign that only the weight matters."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, dtype=torch.double) + 0.5)

    def forward(self, x):
        if torch._C._functorch.maybe_get_level(self.weight) > 0:
            x = x.detach()
        return _Affine.apply(x, self.weight)


class _Affine(Function):
    @staticmethod
    def forward(x, w):
        return x * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, (g * x).sum(0)


# ------------------------------------------------------------------------------ twins


@twin(normal(8))
class TwoFormsOfOneSlope(Function):
    """Another formula where backward is recorded, for the same function."""

    @staticmethod
    def forward(x):
        return torch.nn.functional.softplus(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            return g * (1 + torch.tanh(x / 2)) / 2
        return g * torch.sigmoid(x)


@twin(normal(3, 4), normal(4), normal(3))
class NeedsOfItsOwn(Function):
    """Leaves out what nobody needs."""

    @staticmethod
    def forward(x, w, b):
        return x @ w + b

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, _ = inputs
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        g_x = torch.outer(g, w) if ctx.needs_input_grad[0] else None
        g_w = x.T @ g if ctx.needs_input_grad[1] else None
        return g_x, g_w, g if ctx.needs_input_grad[2] else None


@twin(uniform(6, low=0.5, high=2.0))
class SlopeRecomputedWhenMissed(Function):
    """A cache under the input's id that a transform misses, with the value itself."""

    @staticmethod
    def forward(x):
        _SLOPES.clear()
        _SLOPES[id(x)] = 1 / x
        return x.log()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.slope = _SLOPES.pop(id(inputs[0]), None)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        known = ctx.slope is not None and not torch.is_grad_enabled()
        return g * ctx.slope if known else g / x


@twin(normal(5, dtype=FLOAT32))
class SavesLessForInference(Function):
    """Asks `requires_grad`, only to choose between two things to save."""

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.is_slope = not x.requires_grad
        ctx.save_for_backward(x.cos() if ctx.is_slope else x)

    @staticmethod
    def backward(ctx, g):
        (kept,) = ctx.saved_tensors
        return g * kept if ctx.is_slope else g * kept.cos()


@twin(phases(5))
class CountsItsCalls(Function):
    """Statistics beside the point, which several levels of set-up inflate."""

    calls = 0

    @staticmethod
    def forward(z):
        return z * z

    @staticmethod
    def setup_context(ctx, inputs, output):
        CountsItsCalls.calls += 1
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return g * 2 * z.conj()


@twin(normal(6))
class OldStyle(Function):
    """Takes ctx in forward, which every transform refuses."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.exp()
