"""A two-layer network whose weights are split over ranks (tensor parallel).

    torchrun --nproc-per-node 2 -m backproof audit examples/distributed/tensor_parallel.py

The first weight is split by columns: each rank computes some hidden units from the whole
input. The second is split by rows: each rank adds up its own units' part of the output.

    x ──copy──> x @ w1 on each rank ──gelu──> @ w2 on each rank ──reduce──> y

Two Functions stand where tensors cross between "the same on all ranks" and "each rank's
own", and they are each other's mirror image:

    copy     forward: nothing        backward: sum over ranks
    reduce   forward: sum over ranks  backward: nothing

Why `copy` must sum: every rank used the one `x`, so its gradient is the sum of what they
all claim. Why `reduce` must not: all ranks go on with the same `y` to the same loss, so
each of them already gets the whole gradient of `y`, which is that of every term of a sum.
As functions of one rank both would be right with an identity for a backward; only over
all ranks together can a wrong one be told.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional


class Copy(torch.autograd.Function):
    """From replicated to what each rank does with it."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        total = grad_output.clone()  # a collective works in place
        dist.all_reduce(total)
        return total


class Reduce(torch.autograd.Function):
    """From each rank's part to the whole, replicated."""

    @staticmethod
    def forward(ctx, part):
        whole = part.clone()
        dist.all_reduce(whole)
        return whole

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


class TensorParallel(nn.Module):
    """Linear, gelu, linear, with a share of the hidden units on each rank."""

    def __init__(self, size, hidden):
        super().__init__()
        mine = hidden // dist.get_world_size()
        gen = torch.Generator().manual_seed(dist.get_rank())  # other units on each rank
        self.w1 = nn.Parameter(torch.randn(size, mine, generator=gen) / size**0.5)
        self.w2 = nn.Parameter(torch.randn(mine, size, generator=gen) / hidden**0.5)

    def forward(self, x):
        units = functional.gelu(Copy.apply(x) @ self.w1)
        return Reduce.apply(units @ self.w2)


def main():
    """Train for some steps on made-up data."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)  # the same embedding and the same data on all ranks
    embedding = nn.Linear(6, 8)
    block = TensorParallel(8, 16)
    optimizer = torch.optim.SGD([*embedding.parameters(), *block.parameters()], lr=0.1)
    for _ in range(int(os.environ.get("STEPS", "5"))):
        data = torch.randn(12, 6)
        target = data.roll(1, dims=1).repeat(1, 2)[:, :8]
        optimizer.zero_grad()
        loss = functional.mse_loss(block(embedding(data)), target)
        loss.backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
