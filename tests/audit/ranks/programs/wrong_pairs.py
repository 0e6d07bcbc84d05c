"""Collectives whose backward is not the adjoint of their forward."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))
from meeting import gathered, meet, own, same, summed


class Mean(torch.autograd.Function):
    """Forward is a sum, backward that of a mean."""

    @staticmethod
    def forward(ctx, x):
        return summed(x)

    @staticmethod
    def backward(ctx, g):
        return g / dist.get_world_size()


class GatherFirst(torch.autograd.Function):
    """Each rank takes the part of rank 0."""

    @staticmethod
    def forward(ctx, x):
        return torch.cat(gathered(x))

    @staticmethod
    def backward(ctx, g):
        return summed(g).chunk(dist.get_world_size())[0].clone()


class AllToAll(torch.autograd.Function):
    """What came from another rank is not sent back."""

    @staticmethod
    def forward(ctx, x):
        size, rank = dist.get_world_size(), dist.get_rank()
        return torch.cat([part.chunk(size)[rank] for part in gathered(x)])

    @staticmethod
    def backward(ctx, g):
        return g


class ReduceForAll(torch.autograd.Function):
    """For a loss that is summed over ranks: what other ranks make of it is lost."""

    @staticmethod
    def forward(ctx, x):
        return summed(x)

    @staticmethod
    def backward(ctx, g):
        return g


class ColumnLinear(torch.autograd.Function):
    """The input's gradient is right, the weight's is summed over ranks as well."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return summed(g @ weight.T), summed(x.T @ g)


def main():
    meet()
    size = dist.get_world_size()
    x, part = same(4, 6).requires_grad_(), own(6, 3).requires_grad_()
    (Mean.apply(part) * same(6, 3)).sum().backward()
    (GatherFirst.apply(part) * own(6 * size, 3)).sum().backward()
    (AllToAll.apply(part) * own(6, 3)).sum().backward()
    (ReduceForAll.apply(part) * own(6, 3)).sum().backward()
    weight = torch.nn.Parameter(own(6, 5))
    (ColumnLinear.apply(x, weight) * own(4, 5)).sum().backward()


if __name__ == "__main__":
    main()
