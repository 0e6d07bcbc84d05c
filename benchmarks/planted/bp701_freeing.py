"""Faults and right twins for BP701: freeing the graph frees what was saved."""

from __future__ import annotations

import functools
import weakref

import torch
from planted.member import FLOAT32, fault, normal, twin, uniform
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# ----------------------------------------------------------------------------- faults


@fault(normal(10, dtype=FLOAT32))
class OutputsOnCtx(Function):
    """All outputs in a tuple on ctx, by setup_context."""

    @staticmethod
    def forward(x):
        return x.sin(), x.cos()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.outputs = output

    @staticmethod
    def backward(ctx, of_sine, of_cosine):
        sine, cosine = (t.detach() for t in ctx.outputs)
        return of_sine * cosine - of_cosine * sine


@fault(normal(12))
class BoundToCtx(Function):
    """A partial function on ctx that holds ctx."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.pull = functools.partial(BoundToCtx.pulled, ctx)
        return x.exp()

    @staticmethod
    def pulled(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.exp()

    @staticmethod
    def backward(ctx, g):
        return ctx.pull(g)


@fault(uniform(6, low=0.5, high=2))
class ClosureOverOutput(Function):
    """A closure on ctx that holds the output."""

    @staticmethod
    def forward(ctx, x):
        y = x.sqrt()
        ctx.pull = lambda g: g / (2 * y.detach())
        return y

    @staticmethod
    def backward(ctx, g):
        return ctx.pull(g)


class _Record:
    """What a call leaves behind for its backward."""

    def __init__(self, ctx):
        self.ctx = ctx
        self.result = None


@fault(normal(4, 5))
class RecordOfCall(Function):
    """An object on ctx that points back to ctx."""

    @staticmethod
    def forward(ctx, x):
        ctx.record = _Record(ctx)
        ctx.record.result = torch.softmax(x, -1).detach()
        return ctx.record.result.clone()

    @staticmethod
    def backward(ctx, g):
        y = ctx.record.result
        return y * (g - (g * y).sum(-1, keepdim=True))


@fault(normal(9, dtype=FLOAT32))
def hooked(x):
    """A hook on the result that holds the result."""
    y = torch.tanh(x) * 2
    y.register_hook(lambda g: g + 0 * y.detach())
    return y


# ------------------------------------------------------------------------------ twins


@twin(normal(10, dtype=FLOAT32))
class OutputsSaved(Function):
    """All outputs through save_for_backward."""

    @staticmethod
    def forward(x):
        return x.sin(), x.cos()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx, of_sine, of_cosine):
        sine, cosine = ctx.saved_tensors
        return of_sine * cosine - of_cosine * sine


@twin(normal(12))
class DetachedOutput(Function):
    """The output without its history: no way leads back to ctx."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.y = y.clone()
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * ctx.y


@twin(normal(4, 6))
class IndicesOnCtx(Function):
    """An integer output on ctx, which has no history."""

    @staticmethod
    def forward(ctx, x):
        best, at = x.max(-1)
        ctx.at = at
        ctx.width = x.shape[-1]
        ctx.mark_non_differentiable(at)
        return best, at

    @staticmethod
    def backward(ctx, g, _):
        of_x = g.new_zeros(len(g), ctx.width)
        return of_x.scatter(-1, ctx.at[:, None], g[:, None])


@twin(normal(12))
class WeaklyBound(Function):
    """A function on ctx that knows ctx by a weak reference."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        weak = weakref.ref(ctx)
        ctx.saved = lambda: weak().saved_tensors
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved()
        return g * x.exp()


@twin(uniform(6, low=0.5, high=2))
class ClosureOverInput(Function):
    """A closure on ctx that holds a copy of the input."""

    @staticmethod
    def forward(ctx, x):
        kept = x.detach().clone()
        ctx.pull = lambda g: g / (2 * kept.sqrt())
        return x.sqrt()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return ctx.pull(g)


@twin(normal(9, dtype=FLOAT32))
def hooked_weakly(x):
    """A hook that holds a number and no tensor."""
    y = torch.tanh(x) * 2
    scale = float(y.detach().abs().max() * 0 + 1)
    y.register_hook(lambda g: g * scale)
    return y
