"""Faults and right twins for BP601: forward and backward repeat exactly."""

from __future__ import annotations

import itertools
import random
import time

import numpy as np
import torch
from planted.member import BFLOAT16, FLOAT32, fault, normal, twin
from torch import nn
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


@fault(normal(30))
class UnseededDropout(Function):
    """A NumPy generator of one's own, seeded by the system."""

    @staticmethod
    def forward(ctx, x):
        kept = torch.from_numpy(np.random.default_rng().random(x.shape) < 0.8)
        ctx.save_for_backward(kept)
        return x * kept

    @staticmethod
    def backward(ctx, g):
        (kept,) = ctx.saved_tensors
        return g * kept


_calls = itertools.count()


@fault(normal(7, 6, dtype=FLOAT32))
class WarmedUp(Function):
    """Every second call takes the "tuned" kernel, which rounds otherwise."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if next(_calls) % 2:
            return x.bfloat16().float().exp()
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.exp()


@fault(normal(40))
class DelayedScale(Function):
    """The scale of this call comes from the largest value of the calls before."""

    largest = 1.0

    @staticmethod
    def forward(ctx, x):
        scale = DelayedScale.largest
        DelayedScale.largest = 0.9 * scale + 0.1 * float(x.detach().abs().max())
        y = torch.tanh(x / scale)
        ctx.save_for_backward(y)
        return y * scale

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)


@fault(normal(20, dtype=FLOAT32))
class StochasticRounding(Function):
    """A gradient that is rounded by dice of the clock."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        dice = torch.Generator().manual_seed(time.perf_counter_ns() % 2**31)
        exact = g * x.cos()
        step = 2**-10
        return ((exact / step) + torch.rand(g.shape, generator=dice)).floor() * step


@fault(normal(5, 8))
class WorkersInDisorder(Function):
    """Partial results come in an order that the system's dice decide."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square().sum(-1)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        total = torch.zeros_like(x)
        parts = [1e8 * g[:, None] * x, g[:, None] * x, -1e8 * g[:, None] * x]
        parts.append(g[:, None] * x)
        random.SystemRandom().shuffle(parts)
        for part in parts:
            total = total + part
        return total


# ------------------------------------------------------------------------------ twins


@twin(normal(30))
class SeededDropout(Function):
    """A generator of one's own, seeded by torch's."""

    @staticmethod
    def forward(ctx, x):
        source = np.random.default_rng(int(torch.randint(2**31, ())))
        kept = torch.from_numpy(source.random(x.shape) < 0.8)
        ctx.save_for_backward(kept)
        return x * kept

    @staticmethod
    def backward(ctx, g):
        (kept,) = ctx.saved_tensors
        return g * kept


@twin(normal(12, 4))
class PythonAndNumpy(Function):
    """Both global generators, which repeat when their state does."""

    @staticmethod
    def forward(ctx, x):
        ctx.scale = random.choice([0.5, 2.0])
        noise = torch.from_numpy(np.random.rand(*x.shape))
        ctx.save_for_backward(noise)
        return x * noise * ctx.scale

    @staticmethod
    def backward(ctx, g):
        (noise,) = ctx.saved_tensors
        return g * noise * ctx.scale


@twin(normal(6, 5, dtype=FLOAT32), 7)
class SeedAsArgument(Function):
    """Noise that the caller decides."""

    @staticmethod
    def forward(ctx, x, seed):
        source = torch.Generator().manual_seed(seed)
        noise = torch.rand(x.shape, generator=source)
        ctx.save_for_backward(noise)
        return x + noise * x

    @staticmethod
    def backward(ctx, g):
        (noise,) = ctx.saved_tensors
        return g * (1 + noise), None


@twin(normal(9))
class EmptyAndFilled(Function):
    """Uninitialised memory of which each element is written."""

    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        y[::2] = x[::2].sin()
        y[1::2] = x[1::2].cos()
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        of_x = torch.empty_like(x)
        of_x[::2] = g[::2] * x[::2].cos()
        of_x[1::2] = -g[1::2] * x[1::2].sin()
        return of_x


_seconds: list[float] = []


@twin(normal(8))
class Timed(Function):
    """Looks at the clock, and keeps it to itself."""

    @staticmethod
    def forward(ctx, x):
        began = time.perf_counter()
        ctx.save_for_backward(x)
        y = x.cosh()
        _seconds.append(time.perf_counter() - began)
        return y

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.sinh()


@twin(normal(16, 10, dtype=BFLOAT16))
class NoisyLayer(nn.Module):
    """Dropout and noise from torch's generator, in sixteen bits."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(10, 4).bfloat16()

    def forward(self, x):
        y = nn.functional.dropout(self.layer(x), 0.3)
        return y + 0.1 * torch.randn_like(y)
