"""Faults and right twins for BP101: backward is forward's vector-Jacobian product."""

from __future__ import annotations

import math

import torch
from planted.member import (
    BFLOAT16,
    FLOAT32,
    drawn,
    fault,
    fixed,
    indices,
    integers,
    normal,
    phases,
    twin,
    uniform,
)
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# ----------------------------------------------------------------------------- faults


@fault(normal(16, 24, dtype=FLOAT32), normal(24, dtype=FLOAT32))
class LayerNorm(Function):
    """The mean of the gradient is not taken off."""

    @staticmethod
    def forward(ctx, x, gain):
        rstd = (x.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()
        normed = (x - x.mean(-1, keepdim=True)) * rstd
        ctx.save_for_backward(normed, rstd, gain)
        return normed * gain

    @staticmethod
    def backward(ctx, g):
        normed, rstd, gain = ctx.saved_tensors
        of_normed = g * gain
        slope = (of_normed * normed).mean(-1, keepdim=True)
        return rstd * (of_normed - normed * slope), (g * normed).sum(0)


@fault(phases(6, 5), phases(5, 4))
class ComplexMatmul(Function):
    """One of the two factors is transposed and not conjugated."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g @ b.mH, a.mT @ g


@fault(normal(10, 4), indices(16, below=10))
class Lookup(Function):
    """Rows that are looked up twice get only the last of their gradients."""

    @staticmethod
    def forward(ctx, table, rows):
        ctx.save_for_backward(rows)
        ctx.shape = table.shape
        return table[rows]

    @staticmethod
    def backward(ctx, g):
        (rows,) = ctx.saved_tensors
        of_table = g.new_zeros(ctx.shape)
        of_table[rows] = g
        return of_table, None


@fault(normal(40), fixed(normal(40)), 0.5)
class Huber(Function):
    """The linear branch forgets its slope, and small residuals are right."""

    @staticmethod
    def forward(ctx, x, target, delta):
        residual = x - target
        ctx.save_for_backward(residual)
        ctx.delta = delta
        size = residual.abs()
        return torch.where(
            size < delta, 0.5 * residual**2, delta * (size - 0.5 * delta)
        )

    @staticmethod
    def backward(ctx, g):
        (residual,) = ctx.saved_tensors
        return g * residual.clamp(-1, 1), None, None


@fault(normal(2, 3, 12, dtype=FLOAT32))
class ReflectedBlur(Function):
    """The two elements that the border reflects are counted once."""

    @staticmethod
    def forward(ctx, x):
        padded = nn.functional.pad(x, (1, 1), mode="reflect")
        return (padded[..., :-2] + 2 * padded[..., 1:-1] + padded[..., 2:]) / 4

    @staticmethod
    def backward(ctx, g):
        padded = nn.functional.pad(g, (1, 1))
        return (padded[..., :-2] + 2 * padded[..., 1:-1] + padded[..., 2:]) / 4


@fault(drawn(lambda r: torch.eye(5).double() * 3 + torch.randn(5, 5, generator=r)))
class LogDeterminant(Function):
    """The inverse of a matrix that is not symmetric, where its transpose is due."""

    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return torch.linalg.slogdet(a).logabsdet

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return g * torch.linalg.inv(a)


@fault(uniform(64, low=-3, high=3, dtype=FLOAT32))
class FastGelu(Function):
    """Forward is the tanh approximation, backward the derivative of the exact one."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return nn.functional.gelu(x, approximate="tanh")

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        below = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        return g * (below + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi))


@fault(normal(32, 48, dtype=BFLOAT16))
class HalfSoftmax(Function):
    """The sum over the row is left out."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * g


class _Normed(Function):
    @staticmethod
    def forward(ctx, v, size):
        norm = v.norm(dim=1, keepdim=True)
        ctx.save_for_backward(v, size, norm)
        return v * (size / norm)

    @staticmethod
    def backward(ctx, g):
        v, size, norm = ctx.saved_tensors
        of_size = (g * v).sum(1, keepdim=True)  # over the norm, it should be
        along = (g * v).sum(1, keepdim=True) / norm**2
        return size / norm * (g - v * along), of_size


@fault(normal(7, 6))
class WeightNormedLinear(nn.Module):
    """Only the gradient of one parameter of a module is wrong."""

    def __init__(self):
        super().__init__()
        self.direction = nn.Parameter(torch.randn(5, 6, dtype=torch.double))
        self.size = nn.Parameter(torch.ones(5, 1, dtype=torch.double))

    def forward(self, x):
        return x @ _Normed.apply(self.direction, self.size).mT


# ------------------------------------------------------------------------------ twins


@twin(integers(4, 15))
class PooledMax(Function):
    """Ties go to the first: a choice, and a right one."""

    @staticmethod
    def forward(ctx, x):
        best, at = x.unflatten(-1, (5, 3)).max(-1)
        ctx.save_for_backward(at)
        return best

    @staticmethod
    def backward(ctx, g):
        (at,) = ctx.saved_tensors
        spread = g.new_zeros(*at.shape, 3)
        return spread.scatter_(-1, at[..., None], g[..., None]).flatten(-2)


@twin(uniform(30, low=0.5, high=9))
class NewtonCubeRoot(Function):
    """An iteration whose backward knows nothing of the iterations."""

    @staticmethod
    def forward(ctx, x):
        y = torch.ones_like(x)
        for _ in range(60):
            y = (2 * y + x / y**2) / 3
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g / (3 * y**2)


@twin(phases(20))
class Phase(Function):
    """Not holomorphic, and complex to real."""

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return torch.atan2(z.imag, z.real)

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return g * 1j * z / (z.real**2 + z.imag**2)


@twin(drawn(lambda r: 1e4 + torch.randn(6, 9, generator=r, dtype=torch.double)))
class FarLogSumExp(Function):
    """Inputs far from zero, whose gradient comes from their small differences."""

    @staticmethod
    def forward(ctx, x):
        y = torch.logsumexp(x, -1)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g[..., None] * (x - y[..., None]).exp()


@twin(normal(8, 5, dtype=FLOAT32), normal(5, 5, dtype=FLOAT32))
class Recomputed(Function):
    """Keeps nothing but its inputs, and differentiates a second run."""

    @staticmethod
    def run(x, w):
        return torch.sin(x @ w) @ w.mT

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return Recomputed.run(x, w)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        leaves = [t.detach().requires_grad_() for t in ctx.saved_tensors]
        with torch.enable_grad():
            y = Recomputed.run(*leaves)
        return torch.autograd.grad(y, leaves, g)


@twin(normal(64, 40, dtype=BFLOAT16))
class HalfRmsNorm(Function):
    """Computes in float32 and answers in bfloat16."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        wide = x.float()
        return (wide * (wide.square().mean(-1, keepdim=True) + 1e-6).rsqrt()).bfloat16()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        wide, of_y = x.float(), g.float()
        scale = (wide.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        along = (of_y * wide).mean(-1, keepdim=True) * scale**2
        return (scale * (of_y - wide * along)).bfloat16()


@twin(normal(12, 3), indices(30, below=12))
class LookupAdded(Function):
    """The same rows again and again, and their gradients added up."""

    @staticmethod
    def forward(ctx, table, rows):
        ctx.save_for_backward(rows)
        ctx.rows = len(table)
        return table.index_select(0, rows)

    @staticmethod
    def backward(ctx, g):
        (rows,) = ctx.saved_tensors
        return g.new_zeros(ctx.rows, g.shape[1]).index_add_(0, rows, g), None


@twin(integers(24, low=-2, high=3))
class SoftShrink(Function):
    """Kinks at the bounds, where a third of the inputs lie."""

    @staticmethod
    def forward(ctx, x):
        y = x.sign() * (x.abs() - 1).clamp(min=0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (y != 0)


def _half_wave(x: Tensor) -> Tensor:
    return torch.where(x > 0, x * x, 0.0)


@twin(normal(50, dtype=FLOAT32))
def squared_relu(x):
    """A second derivative that jumps, which is nobody's business here."""
    return _half_wave(x) - _half_wave(-x)
