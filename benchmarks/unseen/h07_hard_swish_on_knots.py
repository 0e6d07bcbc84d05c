"""Hard swish, x · clamp(x + 3, 0, 6) / 6, on activations that were quantised before.

Healthy: it looks suspicious, because many inputs lie exactly on the knots -3 and 3,
where the two sides have different slopes. Backward returns one of them.
"""

import torch
from torch import Tensor

FAULT = None
KIND = "formula"


class HardSwish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * (x + 3).clamp(0, 6) / 6

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        inner = x / 3 + 0.5
        slope = torch.where(x <= -3, torch.zeros_like(x), inner)
        return grad_output * torch.where(x >= 3, torch.ones_like(x), slope)


op = HardSwish.apply


def inputs(seed: int = 0) -> tuple[Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(20, 30, generator=gen, dtype=torch.float64)
    return ((x * 2).round().div(2).requires_grad_(),)
