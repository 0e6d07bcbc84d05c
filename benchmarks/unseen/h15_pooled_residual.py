"""Mean over time, plus a learned offset that is broadcast over the batch.

Healthy: it looks suspicious, because one gradient has stride zero along time, the other
is not reduced to its input's shape, and for a lone offset both are the cotangent itself.
The engine sums what was broadcast, and copies what is shared.
"""

import torch
from torch import Tensor

FAULT = None
KIND = "gradient form"


class PooledResidual(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, offset, skip):
        ctx.steps = x.shape[1]
        return x.mean(dim=1) + offset + skip

    @staticmethod
    def backward(ctx, grad_output):
        spread = (grad_output / ctx.steps).unsqueeze(1)
        grad_x = spread.expand(-1, ctx.steps, -1)
        return grad_x, grad_output, grad_output


op = PooledResidual.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 11, 8, generator=gen, dtype=torch.float32)
    offset = torch.randn(8, generator=gen, dtype=torch.float32)
    skip = torch.randn(6, 8, generator=gen, dtype=torch.float32)
    return x.requires_grad_(), offset.requires_grad_(), skip.requires_grad_()
