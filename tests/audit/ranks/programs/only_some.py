"""A program in which ranks do different things."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))
from meeting import meet, own, same
from right_pairs import Copy, Reduce, Square


class Solo(torch.autograd.Function):
    """Communicates in a group of rank 0 alone."""

    group = None

    @staticmethod
    def forward(ctx, x):
        y = x.clone()
        dist.all_reduce(y, group=Solo.group)
        return y

    @staticmethod
    def backward(ctx, g):
        return g


def main():
    meet()
    pairs = [dist.new_group([0, 1]), dist.new_group([2])]
    Solo.group = dist.new_group([0])
    x = own(4).requires_grad_()
    if dist.get_rank() == 0:
        Square.apply(x).sum().backward()
        Solo.apply(x).sum().backward()
    del pairs
    shared = same(4).requires_grad_()
    (Copy.apply(shared) * own(4)).sum().backward()
    (Reduce.apply(x) * same(4)).sum().backward()


if __name__ == "__main__":
    main()
