"""Faults and right twins for BP307: `hessian` gives every second-order term."""

from __future__ import annotations

import math

import torch
from planted.member import fault, normal, twin, uniform
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


class _Square(Function):
    """The sum of squares, times a weight."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return w * x.square().sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return 2 * g * w * x, (g * x.square().sum()).expand(w.shape)

    @staticmethod
    def jvp(ctx, x_t, w_t):
        x, w = ctx.saved_tensors
        return w_t * x.square().sum() + 2 * w * (x * x_t).sum()


@fault(normal(3), normal(1))
class TotalAsANumber(_Square):
    """The total goes through Python, and comes back as a constant."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        _Square.setup_context(ctx, inputs, output)
        ctx.total = float(inputs[0].detach().square().sum())

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return 2 * g * w * x, (g * ctx.total).expand(w.shape)


@fault(normal(3), normal(1))
class CrossTermDetached(_Square):
    """The weight's own gradient is right, and its second derivative with x is cut."""

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return 2 * g * w.detach() * x, (g * x.square().sum()).expand(w.shape)


@fault(normal(4))
class BackwardWithoutGrad(Function):
    """Backward runs under `no_grad`, as an inference kernel would."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * torch.sigmoid(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    @torch.no_grad()
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return g * (s + x * s * (1 - s))

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return t * (s + x * s * (1 - s))


class _Slope(Function):
    """g / (1 + x²), whose own gradient for x lacks a factor of two."""

    generate_vmap_rule = True

    @staticmethod
    def forward(g, x):
        return g / (1 + x * x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, h):
        g, x = ctx.saved_tensors
        return h / (1 + x * x), -h * g * x / (1 + x * x) ** 2

    @staticmethod
    def jvp(ctx, g_t, x_t):
        g, x = ctx.saved_tensors
        return g_t / (1 + x * x) - g * x * x_t / (1 + x * x) ** 2


class _Arctangent(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.atan()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g / (1 + x * x)

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return t / (1 + x * x)


@fault(normal(4))
class SecondRuleWrong(_Arctangent):
    """First order is right; the op that backward calls has a wrong gradient."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return _Slope.apply(g, x)


@fault(uniform(4, low=0.5, high=1.5))
class SlopeOnTheSide(Function):
    """Slope and function come from one kernel, and the slope is kept as it is."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.square().log1p()

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.slope = (2 * x / (1 + x * x)).detach()
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slope

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return t * 2 * x / (1 + x * x)


# ------------------------------------------------------------------------------ twins


@twin(normal(4))
class SlopeFromTheOutput(Function):
    """Reads its output alone, which has a history."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.tanh()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)

    @staticmethod
    def jvp(ctx, t):
        (y,) = ctx.saved_tensors
        return t * (1 - y * y)


@twin(normal(4))
class IntermediateReturned(Function):
    """Saves what it computed on the way, as an output that callers drop."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        s = torch.sigmoid(x)
        return x * s, s

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output[1])
        ctx.save_for_forward(*inputs, output[1])

    @staticmethod
    def backward(ctx, g, g_s):
        x, s = ctx.saved_tensors
        return g * s + (g * x + g_s) * s * (1 - s)

    @staticmethod
    def jvp(ctx, t):
        x, s = ctx.saved_tensors
        s_t = t * s * (1 - s)
        return t * s + x * s_t, s_t


@twin(normal(3, 2))
class ConstantOnTheSide(Function):
    """Keeps a number and a table on ctx, neither of which depends on an input."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        table = torch.arange(x.shape[-1], dtype=x.dtype)
        return (x * table).square() / math.sqrt(x.shape[0])

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.table = torch.arange(x.shape[-1], dtype=x.dtype)
        ctx.scale = 2 / math.sqrt(x.shape[0])
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.scale * x * ctx.table.square()

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return t * ctx.scale * x * ctx.table.square()


@twin(normal(4))
class StraightLine(Function):
    """Has a Hessian of zeros by itself, and reads no input in backward."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return 3 * x.flip(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return 3 * g.flip(0)

    @staticmethod
    def jvp(ctx, t):
        return 3 * t.flip(0)


@twin(normal(3), normal(1))
class WithHelpers(_Square):
    """Backward calls a Function with a correct rule of its own."""

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return 2 * g * w * x, (_Square.apply(x, g)).expand(w.shape)
