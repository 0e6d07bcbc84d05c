"""Faults and right twins for BP110: backward keeps the digits that its type allows."""

from __future__ import annotations

import numpy as np
import torch
from planted.member import (
    BFLOAT16,
    FLOAT32,
    drawn,
    fault,
    normal,
    phases,
    twin,
    uniform,
)
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


@fault(normal(20))
class DegreesToSine(Function):
    """A constant that was stored in single precision."""

    radians = np.float32(np.pi / 18)

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x * (np.pi / 18))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        factor = torch.as_tensor(DegreesToSine.radians)
        return g * torch.cos(x * factor.double()) * factor.double()


@fault(normal(12, 10), normal(10, 6))
class SingleMatmul(Function):
    """The weight's gradient goes through a kernel that knows float32 only."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.mT, (x.mT.float() @ g.float()).double()


@fault(uniform(16, low=1e-8, high=4e-8))
class HyperbolicCosineMinusOne(Function):
    """A difference of two numbers that agree in eight digits."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 2 * torch.sinh(x / 2) ** 2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.exp() - (-x).exp()) / 2


def _far(random):
    return 3000 + torch.randn(8, 32, generator=random, dtype=torch.double)


@fault(drawn(_far, FLOAT32))
class Standardise(Function):
    """Backward finds the variance as a difference of large squares."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        centred = x - x.mean(-1, keepdim=True)
        return centred * centred.square().mean(-1, keepdim=True).rsqrt()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        mean = x.mean(-1, keepdim=True)
        rstd = ((x * x).mean(-1, keepdim=True) - mean**2).abs().add(1e-12).rsqrt()
        y = (x - mean) * rstd
        along = (g * y).mean(-1, keepdim=True)
        return rstd * (g - g.mean(-1, keepdim=True) - y * along)


@fault(phases(18))
class SingleComplex(Function):
    """complex64 inside of complex128."""

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z.exp()

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return g * z.to(torch.complex64).exp().conj()


@fault(normal(40, dtype=FLOAT32))
class HalfTable(Function):
    """The derivative is kept in bfloat16 to save memory."""

    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward((1 - y * y).bfloat16())
        return y

    @staticmethod
    def backward(ctx, g):
        (slope,) = ctx.saved_tensors
        return g * slope


# ------------------------------------------------------------------------------ twins


@twin(normal(40))
class SingleThroughout(Function):
    """float32 inside, in forward and backward alike: as exact as its forward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.float().sin().double()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g.float() * x.float().cos()).double()


@twin(normal(30, dtype=FLOAT32))
class DoubleInside(Function):
    """Constants in double precision, results in single."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x.double() * np.float64(np.log(2))).exp().float()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        log2 = np.float64(np.log(2))
        return (g.double() * log2 * (x.double() * log2).exp()).float()


@twin(normal(24, 64, dtype=BFLOAT16), normal(64, dtype=BFLOAT16))
class HalfProduct(Function):
    """Rounds to bfloat16 once, at the very end."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return (x.float() * w.float()).bfloat16()

    @staticmethod
    def backward(ctx, g):
        x, w = (t.float() for t in ctx.saved_tensors)
        of_w = (g.float() * x).sum(0)
        return (g.float() * w).bfloat16(), of_w.bfloat16()


@twin(uniform(30, low=0.5, high=1.0, dtype=FLOAT32))
class FastWave(Function):
    """Ill-conditioned by nature: the argument itself has lost four digits."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(2000 * x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2000 * torch.cos(2000 * x)


@twin(uniform(20, low=-6, high=6, dtype=FLOAT32))
class SaturatedTanh(Function):
    """1 - y² cancels where tanh saturates, as torch's own does."""

    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)


@twin(uniform(16, low=1e-8, high=4e-8))
class HyperbolicCosineMinusOneByExpm1(HyperbolicCosineMinusOne):
    """Tiny inputs, and no difference of what nearly agrees."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (torch.expm1(x) - torch.expm1(-x)) / 2


@twin(normal(5000, dtype=FLOAT32))
class LongSum(Function):
    """Five thousand terms in single precision."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x * x).sum()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x
