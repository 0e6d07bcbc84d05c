"""Faults and right twins for BP303: a pullback gives eager's gradient, each time."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, indices, normal, phases, twin, uniform
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


@fault(normal(6))
class SlopeInPlace(Function):
    """The slope on ctx becomes the gradient, and the next cotangent finds that."""

    @staticmethod
    def forward(x):
        return x.tanh()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.slope = (1 - output * output).detach()

    @staticmethod
    def backward(ctx, g):
        ctx.slope *= g
        return ctx.slope.clone()


@fault(normal(4, 3, dtype=FLOAT32), normal(3, 2, dtype=FLOAT32))
class FirstAnswerKept(Function):
    """The weight's gradient is computed once, whatever the next cotangent is."""

    @staticmethod
    def forward(x, w):
        return x @ w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.weight_gradient = None

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        if ctx.weight_gradient is None:
            ctx.weight_gradient = x.T @ g
        return g @ w.T, ctx.weight_gradient


@fault(normal(5))
class ConsumedIterator(Function):
    """Stages are replayed from an iterator, which is empty the second time."""

    @staticmethod
    def forward(x):
        return x.flip(0).cumsum(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        transposes = (lambda g: g.flip(0).cumsum(0).flip(0), lambda g: g.flip(0))
        ctx.stages = iter(transposes)

    @staticmethod
    def backward(ctx, g):
        for stage in ctx.stages:
            g = stage(g)
        return g


@fault(phases(4))
class RunningTotal(Function):
    """Cotangents are gathered on ctx, as if all of them belonged to one loss."""

    @staticmethod
    def forward(z):
        return z * (2 - 1j)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.total = 0

    @staticmethod
    def backward(ctx, g):
        ctx.total = ctx.total + g
        return ctx.total * (2 + 1j)


@fault(normal(8))
class CompressedAfterUse(Function):
    """What was saved is cut to 16 bits once it has been used, to free memory."""

    @staticmethod
    def forward(x):
        return x.square().cumsum(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.kept = inputs[0].detach().clone()

    @staticmethod
    def backward(ctx, g):
        gradient = 2 * ctx.kept.to(g.dtype) * g.flip(0).cumsum(0).flip(0)
        ctx.kept = ctx.kept.to(torch.bfloat16)
        return gradient


@fault(uniform(5, low=0.1, high=0.9))
class StaleSolution(Function):
    """A solver starts from its last solution, and a small change ends it at once."""

    @staticmethod
    def forward(x):
        return _solve(x, torch.ones_like(x), torch.zeros_like(x), 60)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)
        ctx.start, ctx.sweeps = None, 60

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        start = torch.zeros_like(g) if ctx.start is None else ctx.start
        solved = _solve(x, g, start, ctx.sweeps)
        ctx.start, ctx.sweeps = solved.detach(), 1
        return -solved * y


def _solve(x, right, start, sweeps):
    """(diag(2 + x) + shift / 4)⁻¹ right, by Jacobi's sweeps; symmetric."""
    y = start
    for _ in range(sweeps):
        y = (right - (y.roll(1, 0) + y.roll(-1, 0)) / 4) / (2 + x)
    return y


# ------------------------------------------------------------------------------ twins


@twin(normal(6))
class GradientInPlace(Function):
    """Writes in place, into a tensor that each call makes for itself."""

    @staticmethod
    def forward(x):
        return x.tanh()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        gradient = g.clone()
        gradient *= 1 - y * y
        return gradient


@twin(normal(6, 2, dtype=FLOAT32), indices(6, below=6))
class RanksKept(Function):
    """Keeps on ctx what does not depend on the cotangent, once it has been needed."""

    @staticmethod
    def forward(x, keys):
        return x[keys.argsort(stable=True)]

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.keys, ctx.ranks = inputs[1].clone(), None

    @staticmethod
    def backward(ctx, g):
        if ctx.ranks is None:
            ctx.ranks = ctx.keys.argsort(stable=True).argsort()
        return g[ctx.ranks], None


@twin(normal(5))
class ReversedStages(Function):
    """A fresh iterator over the stages at each call."""

    @staticmethod
    def forward(x):
        return x.flip(0).cumsum(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.stages = [lambda g: g.flip(0), lambda g: g.flip(0).cumsum(0).flip(0)]

    @staticmethod
    def backward(ctx, g):
        for stage in reversed(ctx.stages):
            g = stage(g)
        return g


@twin(uniform(5, low=0.1, high=0.9))
class WarmStart(Function):
    """Starts from the last solution, and goes on until the new one is reached."""

    @staticmethod
    def forward(x):
        return _solve(x, torch.ones_like(x), torch.zeros_like(x), 60)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)
        ctx.start = None

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        start = torch.zeros_like(g) if ctx.start is None else ctx.start
        solved = _solve(x, g, start, 60)
        ctx.start = solved.detach()
        return -solved * y


@twin(phases(4))
class KeepsALog(Function):
    """Changes what lies on ctx, though nothing that a gradient is made of."""

    @staticmethod
    def forward(z):
        return z * z

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.seen = []

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        ctx.seen.append(tuple(g.shape))
        return g * 2 * z.conj()
