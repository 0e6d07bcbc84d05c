"""Collectives with the backward that belongs to them, and one Function without any."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))
from meeting import gathered, meet, mine, own, same, summed


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return summed(g)


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return summed(x)

    @staticmethod
    def backward(ctx, g):
        return g


class AllReduce(torch.autograd.Function):
    """For a loss that is summed over ranks."""

    @staticmethod
    def forward(ctx, x):
        return summed(x)

    @staticmethod
    def backward(ctx, g):
        return summed(g)


class Gather(torch.autograd.Function):
    """For a loss that is summed over ranks: its adjoint is a reduce-scatter."""

    @staticmethod
    def forward(ctx, x):
        return torch.cat(gathered(x))

    @staticmethod
    def backward(ctx, g):
        return mine(summed(g))


class GatherOnce(torch.autograd.Function):
    """For one loss that every rank computes: its adjoint is to take a part."""

    @staticmethod
    def forward(ctx, x):
        return torch.cat(gathered(x))

    @staticmethod
    def backward(ctx, g):
        return mine(g)


class Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return mine(x)

    @staticmethod
    def backward(ctx, g):
        return torch.cat(gathered(g))


class AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return _exchanged(x)

    @staticmethod
    def backward(ctx, g):
        return _exchanged(g)


def _exchanged(x):
    parts = [part.chunk(dist.get_world_size())[dist.get_rank()] for part in gathered(x)]
    return torch.cat(parts)


class ColumnLinear(torch.autograd.Function):
    """One Function for copy and product: each input is shared in another way."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return summed(g @ weight.T), x.T @ g


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


def main():
    meet()
    x, part = same(4, 6).requires_grad_(), own(6, 3).requires_grad_()
    (Copy.apply(x) * own(4, 6)).sum().backward()
    (Reduce.apply(part) * same(6, 3)).sum().backward()
    (AllReduce.apply(part) * own(6, 3)).sum().backward()
    size = dist.get_world_size()
    (Gather.apply(part) * own(6 * size, 3)).sum().backward()
    (GatherOnce.apply(part) * same(6 * size, 3)).sum().backward()
    rows = same(6 * size, 3).requires_grad_()
    (Scatter.apply(rows) * own(6, 3)).sum().backward()
    (AllToAll.apply(part) * own(6, 3)).sum().backward()
    weight = torch.nn.Parameter(own(6, 5))
    (ColumnLinear.apply(x, weight) * own(4, 5)).sum().backward()
    (Square.apply(x) * same(4, 6)).sum().backward()
    if "destroy" in sys.argv:
        dist.destroy_process_group()
    sys.stdout.write("over")


if __name__ == "__main__":
    main()
