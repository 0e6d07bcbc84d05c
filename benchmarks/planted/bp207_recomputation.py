"""Faults and right twins for BP207: recomputation repeats forward's randomness."""

from __future__ import annotations

import random

import numpy as np
import torch
from planted.member import FLOAT32, fault, normal, twin, uniform
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils import checkpoint

# ----------------------------------------------------------------------------- faults


@fault(normal(80, dtype=FLOAT32))
class RandomisedLeak(Function):
    """The slopes of a randomised rectifier are drawn again."""

    @staticmethod
    def slopes(x):
        return torch.where(x > 0, 1.0, torch.empty_like(x).uniform_(0.1, 0.4))

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * RandomisedLeak.slopes(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * RandomisedLeak.slopes(x)


def _noisy_layer(x, w):
    return torch.tanh(x @ w + 0.5 * torch.randn(len(x), w.shape[1], dtype=x.dtype))


@fault(normal(6, 5), normal(5, 4))
class Rerun(Function):
    """A checkpoint of one's own, which forgets the generator."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return _noisy_layer(x, w)

    @staticmethod
    def backward(ctx, g):
        leaves = [t.detach().requires_grad_() for t in ctx.saved_tensors]
        with torch.enable_grad():
            y = _noisy_layer(*leaves)
        return torch.autograd.grad(y, leaves, g)


@fault(normal(40))
class NumpyMask(Function):
    """NumPy's global generator, in both directions."""

    @staticmethod
    def forward(ctx, x):
        return x * torch.from_numpy(np.random.binomial(1, 0.5, x.shape)) * 2

    @staticmethod
    def backward(ctx, g):
        return g * torch.from_numpy(np.random.binomial(1, 0.5, g.shape)) * 2


@fault(normal(12, 4))
class DropRows(Function):
    """Rows are dropped by Python's generator, and other rows on the way back."""

    @staticmethod
    def kept(rows):
        return torch.tensor([random.random() < 0.5 for _ in range(rows)])[:, None]

    @staticmethod
    def forward(ctx, x):
        return x * DropRows.kept(len(x))

    @staticmethod
    def backward(ctx, g):
        return g * DropRows.kept(len(g))


@fault(normal(50, dtype=FLOAT32))
class StateTooLate(Function):
    """The generator's state is kept after the draw and not before it."""

    @staticmethod
    def forward(ctx, x):
        mask = torch.rand_like(x) < 0.5
        ctx.state = torch.get_rng_state()
        return x * mask

    @staticmethod
    def backward(ctx, g):
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.state)
            return g * (torch.rand_like(g) < 0.5)


# ------------------------------------------------------------------------------ twins


@twin(normal(80, dtype=FLOAT32))
class KeptSlopes(Function):
    """Random slopes, kept."""

    @staticmethod
    def forward(ctx, x):
        slopes = RandomisedLeak.slopes(x)
        ctx.save_for_backward(slopes)
        return x * slopes

    @staticmethod
    def backward(ctx, g):
        (slopes,) = ctx.saved_tensors
        return g * slopes


@twin(normal(6, 5), normal(5, 4))
class Replayed(Function):
    """Runs again from the state in which forward began."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.state = torch.get_rng_state()
        ctx.save_for_backward(x, w)
        return _noisy_layer(x, w)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        leaves = [t.detach().requires_grad_() for t in ctx.saved_tensors]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            y = _noisy_layer(*leaves)
        return torch.autograd.grad(y, leaves, g)


@twin(normal(60))
class SeedDrawn(Function):
    """Forward draws one seed, and both directions make the mask from it."""

    @staticmethod
    def mask(x, seed):
        source = torch.Generator().manual_seed(seed)
        return torch.rand(x.shape, generator=source) < 0.5

    @staticmethod
    def forward(ctx, x):
        ctx.seed = int(torch.randint(2**31, ()))
        return x * SeedDrawn.mask(x, ctx.seed)

    @staticmethod
    def backward(ctx, g):
        return g * SeedDrawn.mask(g, ctx.seed)


@twin(normal(6, 5), normal(5, 4))
def checkpointed(x, w):
    """torch's own checkpoint, which replays the generator."""
    return checkpoint.checkpoint(_noisy_layer, x, w, use_reentrant=False)


@twin(uniform(7, 3, low=0.2, high=1))
class RandomOrder(Function):
    """Backward draws an order in which to work; the result does not depend on it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.log()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        of_x = torch.empty_like(x)
        for row in torch.randperm(len(x)).tolist():
            of_x[row] = g[row] / x[row]
        return of_x


@twin(normal(9, 6))
class DropoutLayer(nn.Module):
    """Dropout between two layers, as torch has it."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 2)
        ).double()

    def forward(self, x):
        return self.layers(x)
