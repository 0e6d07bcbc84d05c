"""A projection followed by an in-place leaky ReLU that is undone from its output.

Healthy: it looks suspicious, because forward overwrites its argument and backward uses
the overwritten tensor only. The argument is marked dirty, the output is what is saved,
and with a positive slope the sign of the output is the sign of the input.
"""

import torch
from torch import Tensor

FAULT = None
KIND = "mutation"


class LeakyReLUInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        if slope <= 0:
            raise ValueError(f"the slope must be positive to be undone, not {slope}")
        x.copy_(torch.where(x > 0, x, x * slope))
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x

    @staticmethod
    def backward(ctx, grad_output):
        (out,) = ctx.saved_tensors
        return torch.where(out > 0, grad_output, grad_output * ctx.slope), None


def op(x: Tensor, weight: Tensor, slope: float) -> Tensor:
    return LeakyReLUInPlace.apply(x @ weight.t(), slope)


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, float]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(10, 16, generator=gen, dtype=torch.float64)
    weight = torch.randn(12, 16, generator=gen, dtype=torch.float64) / 4
    return x.requires_grad_(), weight.requires_grad_(), 0.1
