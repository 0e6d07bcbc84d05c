"""Faults and right twins for BP505: the gradient is right at every size."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, fixed, normal, twin, uniform
from torch import nn
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


@fault(normal(3, 8))
class HalvesSwapped(Function):
    """n // 2 from both ends, and the middle of an odd size is forgotten."""

    @staticmethod
    def forward(ctx, x):
        return x.flip(-1)

    @staticmethod
    def backward(ctx, g):
        half = g.shape[-1] // 2
        of_x = torch.zeros_like(g)
        of_x[..., :half] = g[..., g.shape[-1] - half :].flip(-1)
        of_x[..., g.shape[-1] - half :] = g[..., :half].flip(-1)
        return of_x


@fault(normal(4, 4, dtype=FLOAT32))
class ScannedInBlocks(Function):
    """The sum is not carried from one block of sixteen to the next."""

    @staticmethod
    def forward(ctx, x):
        return x.cumsum(0)

    @staticmethod
    def backward(ctx, g):
        blocks = [b.flip(0).cumsum(0).flip(0) for b in g.split(16)]
        return torch.cat(blocks)


@fault(normal(6, 3))
class EmptyBatch(Function):
    """A way out for batches without rows, which one row takes as well."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square().sum(-1)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if len(g) - 1 < 1:
            return torch.zeros_like(x)
        return 2 * g[:, None] * x


@fault(normal(8))
class ScaledToLargest(Function):
    """max() of nothing raises, where forward returns nothing."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sinh()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        largest = g.abs().max().clamp(min=1e-30)
        return g / largest * x.cosh() * largest


@fault(normal(5, 16), fixed(uniform(16)))
class TabledWeights(Function):
    """Positions beyond the table's end take its last entry, in backward only."""

    table = torch.linspace(1, 3, 16, dtype=torch.double)

    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(gain)
        position = torch.arange(x.shape[1], dtype=x.dtype)
        return x * gain * (1 + 2 * position / 15)

    @staticmethod
    def backward(ctx, g):
        (gain,) = ctx.saved_tensors
        position = torch.arange(g.shape[1]).clamp(max=15)
        return g * gain * TabledWeights.table[position], None


@fault(normal(4, 8))
class PooledPairs(Function):
    """Average pooling in pairs; backward spreads whole pairs only."""

    @staticmethod
    def forward(ctx, x):
        ctx.width = x.shape[-1]
        return nn.functional.avg_pool1d(x[:, None], 2, ceil_mode=True)[:, 0]

    @staticmethod
    def backward(ctx, g):
        of_x = g.new_zeros(len(g), ctx.width)
        pairs = ctx.width // 2
        spread = (g[:, :pairs] / 2).repeat_interleave(2, -1)
        of_x[:, : 2 * pairs] = spread
        return of_x


# ------------------------------------------------------------------------------ twins


@twin(normal(20, dtype=FLOAT32))
class BlocksWithTail(Function):
    """Blocks of eight, and a last one that is shorter."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        of_x = torch.empty_like(x)
        for start in range(0, len(x), 8):
            at = slice(start, start + 8)
            of_x[at] = 2 * g[at] * x[at]
        return of_x


@twin(normal(8))
class NothingOfNothing(Function):
    """Returns early for empty inputs."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sinh()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if not g.numel():
            return torch.empty_like(g)
        largest = g.abs().max().clamp(min=1e-30)
        return g / largest * x.cosh() * largest


@twin(normal(3, 8))
class EvenOnly(Function):
    """Refuses sizes that it cannot do, in forward and in words."""

    @staticmethod
    def forward(ctx, x):
        if x.shape[-1] % 2 or not x.numel():
            raise ValueError("the last dimension must be even and not empty")
        left, right = x.chunk(2, -1)
        return torch.cat([right, -left], -1)

    @staticmethod
    def backward(ctx, g):
        left, right = g.chunk(2, -1)
        return torch.cat([-right, left], -1)


@twin(normal(5, 6))
class PaddedAndCropped(Function):
    """Pads to a multiple of four, and crops what it pads."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return PaddedAndCropped.blockwise(x, lambda b: b.sin())

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * PaddedAndCropped.blockwise(x, lambda b: b.cos())

    @staticmethod
    def blockwise(x, function):
        width = x.shape[-1]
        padded = nn.functional.pad(x, (0, -width % 4))
        blocks = padded.unflatten(-1, (padded.shape[-1] // 4, 4))
        return function(blocks).flatten(-2)[..., :width]


@twin(normal(6, 5))
class SoftmaxOfOne(Function):
    """With one class there is nothing to choose, and the gradient is zero."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(-1, keepdim=True))


@twin(normal(7, 4))
class MeanOfRows(Function):
    """The mean of no rows is not a number, as torch's is."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.mean(0)

    @staticmethod
    def backward(ctx, g):
        return (g / max(1, ctx.shape[0])).expand(ctx.shape)
