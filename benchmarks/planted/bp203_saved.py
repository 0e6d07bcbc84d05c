"""Faults and right twins for BP203: tensors are saved with save_for_backward."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, fixed, normal, twin, uniform
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


@fault(normal(6, 5), normal(5, 3))
class KeptTogether(Function):
    """Both factors, in a tuple."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.factors = (x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.factors
        return g @ w.mT, x.mT @ g


@fault(uniform(12, low=0.5, high=2, dtype=FLOAT32))
class KeptDetached(Function):
    """Detached, and the same memory."""

    @staticmethod
    def forward(x):
        return x.log()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.x = inputs[0].detach()

    @staticmethod
    def backward(ctx, g):
        return g / ctx.x


@fault(normal(8))
class KeptInNumpy(Function):
    """An array over the input's memory."""

    @staticmethod
    def forward(ctx, x):
        ctx.array = x.detach().numpy()
        return torch.from_numpy(ctx.array**3)

    @staticmethod
    def backward(ctx, g):
        return torch.from_numpy(3 * ctx.array**2 * g.numpy())


@fault(normal(7, 4), fixed(uniform(7, 1)))
class KeptWeight(Function):
    """An input that needs no gradient goes stale as well."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.weight = weight
        return x * weight

    @staticmethod
    def backward(ctx, g):
        return g * ctx.weight, None


@fault(normal(10))
class KeptInClosure(Function):
    """What backward will do is a closure, which holds the input."""

    @staticmethod
    def forward(ctx, x):
        view = x.view(-1)
        ctx.pull = lambda g: g * view.cos()
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        return ctx.pull(g)


@fault(normal(5, 4, dtype=FLOAT32))
class KeptOutput(Function):
    """The output goes stale when the next layer works in place."""

    @staticmethod
    def forward(ctx, x):
        y = torch.exp(x)
        ctx.y = y.detach()
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.y


# ------------------------------------------------------------------------------ twins


@twin(normal(6, 5), normal(5, 3))
class SavedTogether(Function):
    """Tensors saved, and their shapes kept."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        ctx.shapes = (x.shape, w.shape)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return (g @ w.mT).view(ctx.shapes[0]), (x.mT @ g).view(ctx.shapes[1])


@twin(normal(8))
class KeptCopy(Function):
    """A copy of the input, which nobody else can change."""

    @staticmethod
    def forward(ctx, x):
        ctx.array = x.detach().numpy().copy()
        return torch.from_numpy(ctx.array**3)

    @staticmethod
    def backward(ctx, g):
        return torch.from_numpy(3 * ctx.array**2 * g.numpy())


@twin(normal(14, dtype=FLOAT32))
class KeptMask(Function):
    """A mask that forward has made, and nobody else holds."""

    @staticmethod
    def forward(ctx, x):
        ctx.slope = torch.where(x > 0, 1.0, 0.2)
        return x * ctx.slope

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slope


@twin(normal(14))
class SavedOutput(Function):
    """An output through save_for_backward: in-place use is an error of torch's."""

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)


@twin(normal(5, 6))
class KeptNumbers(Function):
    """Numbers read out of the input."""

    @staticmethod
    def forward(ctx, x):
        ctx.scale = 1 / (1 + float(x.detach().abs().max().floor()))
        return x * ctx.scale

    @staticmethod
    def backward(ctx, g):
        return g * ctx.scale


_WINDOW = torch.hann_window(9, dtype=torch.double)


@twin(normal(4, 9))
class KeptConstant(Function):
    """A constant of the program, which no caller holds."""

    @staticmethod
    def forward(ctx, x):
        ctx.window = _WINDOW
        return x * _WINDOW

    @staticmethod
    def backward(ctx, g):
        return g * ctx.window
