"""Faults and right twins for BP602: global state is left as a normal op leaves it."""

from __future__ import annotations

import random

import numpy as np
import torch
from planted.member import FLOAT32, fault, normal, twin, uniform
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# ----------------------------------------------------------------------------- faults


@fault(normal(20))
class SeededByNumpy(Function):
    """NumPy's global generator is seeded, for the whole program."""

    @staticmethod
    def forward(ctx, x):
        np.random.seed(0)
        noise = torch.from_numpy(np.random.rand(*x.shape))
        ctx.save_for_backward(noise)
        return x * noise

    @staticmethod
    def backward(ctx, g):
        (noise,) = ctx.saved_tensors
        return g * noise


@fault(normal(6, 4, dtype=FLOAT32))
class DoubleByDefault(Function):
    """The default dtype is raised for the constants, and left so."""

    @staticmethod
    def forward(ctx, x):
        torch.set_default_dtype(torch.float64)
        ctx.save_for_backward(x)
        return (x.double() * torch.tensor(1.5)).sin().to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 1.5 * torch.cos(1.5 * x)


@fault(normal(5, 4))
def largest_of_rows(x):
    """Gradients are off for the indices, and on afterwards, whatever they were before."""
    torch.set_grad_enabled(False)
    at = x.argmax(1, keepdim=True)
    torch.set_grad_enabled(True)
    return x.gather(1, at)


@fault(normal(8, 8))
class ThreeThreads(Function):
    """A number of threads that suits this op, for the whole program."""

    @staticmethod
    def forward(ctx, x):
        torch.set_num_threads(3)
        return x.cumsum(0)

    @staticmethod
    def backward(ctx, g):
        return g.flip(0).cumsum(0).flip(0)


@fault(uniform(12, low=0.1, high=2, dtype=FLOAT32))
class ReseededInBackward(Function):
    """Random numbers of backward must be forward's: the program's seed is set."""

    @staticmethod
    def mask(x):
        torch.manual_seed(1234)
        return (torch.rand_like(x) < 0.7).to(x)

    @staticmethod
    def forward(ctx, x):
        with torch.random.fork_rng(devices=[]):
            return x * ReseededInBackward.mask(x)

    @staticmethod
    def backward(ctx, g):
        return g * ReseededInBackward.mask(g)


@fault(normal(10))
class ShuffledByPython(Function):
    """Python's generator is seeded so that an order repeats."""

    @staticmethod
    def order(size):
        random.seed(size)
        return random.sample(range(size), size)

    @staticmethod
    def forward(ctx, x):
        ctx.order = ShuffledByPython.order(len(x))
        return x[ctx.order]

    @staticmethod
    def backward(ctx, g):
        of_x = torch.empty_like(g)
        of_x[ctx.order] = g
        return of_x


@fault(normal(5, 5))
class Deterministic(Function):
    """Switches the program to deterministic algorithms."""

    @staticmethod
    def forward(ctx, x):
        torch.use_deterministic_algorithms(True)
        return x.tril()

    @staticmethod
    def backward(ctx, g):
        return g.tril()


# ------------------------------------------------------------------------------ twins


@twin(normal(20))
class OwnGenerator(Function):
    """A NumPy generator of the call."""

    @staticmethod
    def forward(ctx, x):
        noise = torch.from_numpy(np.random.default_rng(0).random(x.shape))
        ctx.save_for_backward(noise)
        return x * noise

    @staticmethod
    def backward(ctx, g):
        (noise,) = ctx.saved_tensors
        return g * noise


@twin(normal(20, dtype=FLOAT32))
class DrawsAsOthersDo(Function):
    """Moves torch's generator on, as each random op does."""

    @staticmethod
    def forward(ctx, x):
        mask = torch.rand_like(x) < 0.5
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return g * mask


@twin(uniform(12, low=0.1, high=2))
class ForkedAndSeeded(Function):
    """Sets the program's seed inside of a fork."""

    @staticmethod
    def mask(x):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1234)
            return (torch.rand_like(x) < 0.7).to(x)

    @staticmethod
    def forward(ctx, x):
        return x * ForkedAndSeeded.mask(x)

    @staticmethod
    def backward(ctx, g):
        return g * ForkedAndSeeded.mask(g)


@twin(normal(6, 4, dtype=FLOAT32))
class DefaultPutBack(Function):
    """The default dtype is raised, and put back whatever happens."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return (x.double() * torch.tensor(1.5)).sin().to(x.dtype)
        finally:
            torch.set_default_dtype(before)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g * 1.5 * torch.cos(1.5 * x.double())).to(x.dtype)


@twin(normal(9))
class GradModeInside(Function):
    """Gradients are on for the inner pass only."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.atan().exp()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            return torch.autograd.grad(leaf.atan().exp(), leaf, g)[0]


@twin(uniform(7, low=0.0, high=1.0))
class QuietInNumpy(Function):
    """NumPy's warnings are off inside of a context."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        with np.errstate(all="ignore"):
            return torch.from_numpy(np.exp(x.detach().numpy()))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.exp()


@twin(normal(10))
class StatePutBack(Function):
    """Python's generator is seeded and gets its state back."""

    @staticmethod
    def forward(ctx, x):
        state = random.getstate()
        random.seed(5)
        ctx.order = random.sample(range(len(x)), len(x))
        random.setstate(state)
        return x[ctx.order]

    @staticmethod
    def backward(ctx, g):
        of_x = torch.empty_like(g)
        of_x[ctx.order] = g
        return of_x
