"""Smooth L1 shrinkage of feature maps, its gradient written through a flat buffer.

Fault: `empty_like` keeps the layout of its argument and backward fills the buffer in
memory order with values in logical order; with a channels-last input the gradient's
elements are shuffled.
"""

import torch
from torch import Tensor

FAULT = "gradient-filled-in-memory-order"
KIND = "strides"


class SmoothShrink(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, delta):
        ctx.save_for_backward(x)
        ctx.delta = delta
        return x - x * delta / torch.sqrt(delta * delta + x * x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        delta = ctx.delta
        grad_x = torch.empty_like(x)
        memory = grad_x.as_strided((x.numel(),), (1,))
        xs = x.reshape(-1)
        gs = grad_output.reshape(-1)
        root = torch.sqrt(delta * delta + xs * xs)
        memory.copy_(gs * (1 - delta**3 / root**3))
        return grad_x, None


op = SmoothShrink.apply


def inputs(seed: int = 0) -> tuple[Tensor, float]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 3, 8, 8, generator=gen, dtype=torch.float32)
    return x.requires_grad_(), 0.5
