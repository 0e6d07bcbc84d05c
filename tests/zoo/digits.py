"""BP109 and BP110: not finite, or not all digits."""

import torch
from torch.autograd import Function

from tests.zoo.healthy import Affine, Tanh, Wave
from tests.zoo.member import (
    BFLOAT16,
    FINE,
    FLOAT32,
    FLOAT64,
    guilty,
    normal,
    values,
)

_HALF = {torch.float64: torch.float32, torch.float32: torch.float16}


@guilty("BP109", values(0.5, 0.0, -1.5, 2.0))
class ZeroOverZero(Function):
    """sin(x) / x, which is 1 at 0, and a gradient that is nan there."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sinc(x / torch.pi)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x * torch.cos(x) - torch.sin(x)) / x**2


@guilty("BP109", values(0.5, -2.0, 1000.0, 3.0))
class Overflow(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.nn.functional.softplus(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.exp(x) / (1 + torch.exp(x))


@guilty("BP109", values(0.5, -2.0, 1.5, 3.0))
def guarded_by_where(x):
    """A nan of the branch that is not taken comes back through zero times nan."""
    return torch.where(x > 0, torch.sqrt(x), -x)


@guilty("BP110", normal(64), dtypes=FINE)
class HalfTheDigits(Wave):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        half = _HALF[x.dtype]
        x, low = x.to(half), g.to(half)
        return (low * (torch.sin(x) + x * torch.cos(x))).to(g.dtype)


@guilty("BP110", normal(64), dtypes=(FLOAT64,))
class Float32Constant(Tanh):
    """A third, rounded to float32."""

    @staticmethod
    def forward(ctx, x):
        return Tanh.forward(ctx, x) / 3

    @staticmethod
    def backward(ctx, g):
        third = float(torch.tensor(1 / 3, dtype=torch.float32))
        return Tanh.backward(ctx, g) * third


@guilty("BP110", normal(512, 4), normal(4, 4), normal(4), dtypes=(BFLOAT16,))
class SaturatingSum(Affine):
    """Each addition rounds to the type: a bfloat16 sum of ones stops at 256."""

    @staticmethod
    def backward(ctx, g):
        of_x, of_w, _ = Affine.backward(ctx, g)
        total = torch.zeros_like(g[0])
        for row in g:
            total = total + row
        return of_x, of_w, total


@guilty("BP110", normal(64), dtypes=(FLOAT32, BFLOAT16))
class Cancellation(Function):
    """1 - tanh² with a detour far from zero, which costs 14 of the binary digits."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        y = torch.tanh(x) + 2.0**14
        return g * (1 - (y - 2.0**14) ** 2)
