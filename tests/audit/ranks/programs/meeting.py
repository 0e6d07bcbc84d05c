"""What the programs share: to meet, and to make tensors that ranks share or do not."""

import os

import torch
import torch.distributed as dist


def meet():
    dist.init_process_group(
        "gloo",
        init_method=f"file://{os.environ['MEET']}",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
    )


def same(*shape, seed=0):
    """The same on all ranks."""
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=gen, dtype=torch.double)


def own(*shape, seed=0):
    """Another on each rank."""
    return same(*shape, seed=100 * (1 + dist.get_rank()) + seed)


def gathered(x):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return parts


def summed(x):
    total = x.clone()
    dist.all_reduce(total)
    return total


def mine(x):
    """This rank's part of the first dimension."""
    return x.chunk(dist.get_world_size())[dist.get_rank()].clone()
