"""Faults and right twins for BP206: a second backward gives the same gradient."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, normal, twin, uniform
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# ----------------------------------------------------------------------------- faults


@fault(normal(10))
class FreedEarly(Function):
    """What was kept is deleted as soon as backward has read it."""

    @staticmethod
    def forward(ctx, x):
        ctx.slope = x.cos()
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        of_x = g * ctx.slope
        del ctx.slope
        return of_x


@fault(normal(4, 6, dtype=FLOAT32))
class SpentInPlace(Function):
    """The kept derivative becomes the gradient, in place."""

    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.slope = 1 - y * y
        return y

    @staticmethod
    def backward(ctx, g):
        return ctx.slope.mul_(g)


@fault(normal(8))
class Accumulating(Function):
    """A gradient is added up on ctx and never reset."""

    @staticmethod
    def forward(ctx, x):
        ctx.total = torch.zeros_like(x)
        return torch.stack([x, 2 * x, 3 * x])

    @staticmethod
    def backward(ctx, g):
        for k in range(3):
            ctx.total += (k + 1) * g[k]
        return ctx.total.clone()


@fault(uniform(5, low=0.5, high=1.5))
class SpentIterator(Function):
    """A generator over the stages, which ends once."""

    @staticmethod
    def forward(ctx, x):
        stages = [x]
        for _ in range(3):
            stages.append(stages[-1].sqrt())
        ctx.slopes = iter([0.5 / y for y in reversed(stages[1:])])
        return stages[-1].clone()

    @staticmethod
    def backward(ctx, g):
        for slope in ctx.slopes:
            g = g * slope
        return g


@fault(normal(16))
class AdvancingNoise(Function):
    """The mask comes from a generator on ctx that moves on with each backward."""

    @staticmethod
    def forward(ctx, x):
        random = torch.Generator().manual_seed(5)
        mask = torch.rand(x.shape, generator=random) < 0.5
        ctx.random = torch.Generator().manual_seed(5)
        return x * mask

    @staticmethod
    def backward(ctx, g):
        return g * (torch.rand(g.shape, generator=ctx.random) < 0.5)


@fault(normal(6, 3, dtype=FLOAT32))
class FirstTimeOnly(Function):
    """A flag skips the work "that was done already"."""

    @staticmethod
    def forward(ctx, x):
        ctx.done = False
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if ctx.done:
            return torch.zeros_like(x)
        ctx.done = True
        return 2 * g * x


# ------------------------------------------------------------------------------ twins


@twin(normal(10))
class KeptForLater(Function):
    """The first backward leaves its derivative on ctx, and the second reads it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.slope = None
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if ctx.slope is None:
            ctx.slope = x.cos().detach()
        return g * ctx.slope


@twin(uniform(5, low=0.5, high=1.5))
class PoppedFromACopy(Function):
    """A list is used up, and it is a copy."""

    @staticmethod
    def forward(ctx, x):
        stages = [x]
        for _ in range(3):
            stages.append(stages[-1].sqrt())
        ctx.slopes = [0.5 / y for y in stages[1:]]
        return stages[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        slopes = list(ctx.slopes)
        while slopes:
            g = g * slopes.pop()
        return g


@twin(normal(16))
class RewoundNoise(Function):
    """A generator on ctx that is set back before it draws."""

    @staticmethod
    def forward(ctx, x):
        ctx.random = torch.Generator().manual_seed(5)
        ctx.state = ctx.random.get_state()
        return x * (torch.rand(x.shape, generator=ctx.random) < 0.5)

    @staticmethod
    def backward(ctx, g):
        ctx.random.set_state(ctx.state)
        return g * (torch.rand(g.shape, generator=ctx.random) < 0.5)


@twin(normal(3, 4, dtype=FLOAT32))
class NothingSaved(Function):
    """Saves nothing: runs again even after the graph is freed, and is right."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.sum(0)

    @staticmethod
    def backward(ctx, g):
        return g.expand(ctx.shape)


@twin(normal(8))
class ResetFirst(Function):
    """An accumulator on ctx, set to zero by each backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.total = torch.zeros_like(x)
        return torch.stack([x, 2 * x, 3 * x])

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        ctx.total.zero_()
        for k in range(3):
            ctx.total += (k + 1) * g[k].detach()
        return ctx.total.clone()


@twin(normal(6))
class CountsBackwards(Function):
    """Counts how often it is called, and the count changes nothing."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.times = 0
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        ctx.times += 1
        return 3 * g * x * x
