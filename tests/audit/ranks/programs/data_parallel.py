"""Data parallel: copies of one network on other data, gradients averaged by torch.

`Root` gets the same tensor on all ranks, which is no parameter but made of one, other
cotangents and other gradients: nothing is missing, they are averaged later. With `norm`
as argument another Function communicates, and gets other inputs on each rank.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parent))
from meeting import meet, own, summed


class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w):
        ctx.save_for_backward(w)
        return w.square()

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        return 2 * w * g


class CentredOverRanks(torch.autograd.Function):
    """Less the mean over the batches of all ranks."""

    @staticmethod
    def forward(ctx, x):
        ctx.number = summed(torch.tensor(float(len(x)))).item()
        return x - summed(x.sum(0)) / ctx.number

    @staticmethod
    def backward(ctx, g):
        return g - summed(g.sum(0)) / ctx.number


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(6, 5, dtype=torch.double) + 0.1)

    def forward(self, x):
        y = x @ Root.apply(self.weight / 2)
        return CentredOverRanks.apply(y) if "norm" in sys.argv else y


def main():
    meet()
    torch.manual_seed(0)
    net = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        net(own(7, 6, seed=step)).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
