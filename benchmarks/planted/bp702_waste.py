"""Waste that BP702 has to note, and thrifty twins on which it has to be silent."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, fixed, normal, twin, uniform
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# ------------------------------------------------------------------ waste, to be noted


@fault(normal(120, 100, dtype=FLOAT32), reference=torch.tanh)
class EverythingSaved(Function):
    """Input, output and derivative, of which the output would do."""

    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(x, y, 1 - y * y)
        return y

    @staticmethod
    def backward(ctx, g):
        _, _, slope = ctx.saved_tensors
        return g * slope


@fault(normal(24, 64), fixed(normal(64, 80)))
class GradientForNobody(Function):
    """A product for a frozen weight, which nobody asked for."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.mT, x.mT @ g


@fault(normal(100, 80, dtype=FLOAT32), reference=torch.relu)
class WideMask(Function):
    """A mask in float64, and the input beside it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, (x > 0).double())
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        _, mask = ctx.saved_tensors
        return g * mask.to(g.dtype)


def sum_of_squares(x, y):
    """Squared distances to all rows of y, of which no pair is formed."""
    squares = len(y) * x.square().sum(1) + y.square().sum()
    return squares - 2 * x @ y.sum(0)


@fault(
    normal(64, 4),
    normal(64, 4),
    reference=sum_of_squares,
)
class AllDifferences(Function):
    """Keeps a difference for each pair and coordinate."""

    @staticmethod
    def forward(ctx, x, y):
        difference = x[:, None] - y[None]
        ctx.save_for_backward(difference)
        return difference.square().sum((1, 2))

    @staticmethod
    def backward(ctx, g):
        (difference,) = ctx.saved_tensors
        pulled = 2 * g[:, None, None] * difference
        return pulled.sum(1), -pulled.sum(0)


@fault(normal(60, 50), normal(50), fixed(normal(60, 50)))
class ShiftForNobody(Function):
    """Three gradients, and the third input is data."""

    @staticmethod
    def forward(ctx, x, gain, shift):
        ctx.save_for_backward(x, gain, shift)
        return (x - shift) * gain

    @staticmethod
    def backward(ctx, g):
        x, gain, shift = ctx.saved_tensors
        of_x = g * gain
        return of_x, (g * (x - shift)).sum(0), -of_x


# --------------------------------------------------------------- thrift, to be kept quiet


@twin(normal(120, 100, dtype=FLOAT32), reference=torch.tanh)
class OutputSaved(Function):
    """One tensor, the output."""

    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)


@twin(normal(24, 64), fixed(normal(64, 80)))
class AsksWhoNeeds(Function):
    """No product for a frozen weight, and no input saved for it."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        of_w = x.mT @ g if ctx.needs_input_grad[1] else None
        return g @ w.mT, of_w


@twin(normal(100, 80, dtype=FLOAT32), reference=torch.relu)
class NarrowMask(Function):
    """A mask of one byte an element."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x > 0)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return g * mask


def gated(x, w):
    """A gated unit, composed."""
    return nn.functional.silu(x) * w


@twin(uniform(60, 50), normal(60, 50), reference=gated)
class BothInputs(Function):
    """Two tensors for two gradients, and everything else anew."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * torch.sigmoid(x) * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        gate = torch.sigmoid(x)
        of_x = of_w = None
        if ctx.needs_input_grad[0]:
            of_x = g * w * gate * (1 + x * (1 - gate))
        if ctx.needs_input_grad[1]:
            of_w = g * x * gate
        return of_x, of_w


@twin(normal(160, 120))
class NothingSaved(Function):
    """Linear, and keeps a number."""

    @staticmethod
    def forward(ctx, x):
        ctx.rows = len(x)
        return x.mean(0)

    @staticmethod
    def backward(ctx, g):
        return (g / ctx.rows).expand(ctx.rows, -1)


@twin(normal(100, 80, dtype=FLOAT32), normal(80, dtype=FLOAT32))
class RowStatistics(Function):
    """The input and two numbers for each row, as layer norm must."""

    @staticmethod
    def forward(ctx, x, gain):
        mean = x.mean(-1, keepdim=True)
        rstd = (x.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()
        ctx.save_for_backward(x, mean, rstd, gain)
        return (x - mean) * rstd * gain

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, mean, rstd, gain = ctx.saved_tensors
        normed = (x - mean) * rstd
        of_x = of_gain = None
        if ctx.needs_input_grad[0]:
            of_y = g * gain
            along = (of_y * normed).mean(-1, keepdim=True)
            of_x = rstd * (of_y - of_y.mean(-1, keepdim=True) - normed * along)
        if ctx.needs_input_grad[1]:
            of_gain = (g * normed).sum(0)
        return of_x, of_gain
