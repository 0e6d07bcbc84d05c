"""A linear layer that squeezes its cotangent into an 8-bit float's range for speed.

Fault: the scale is fixed instead of taken from the cotangent's largest element, so that
large cotangents saturate: twice the cotangent is not twice the gradient.
"""

import torch
from torch import Tensor

FAULT = "cotangent-saturates"
KIND = "linearity"

E5M2_MAX = 57344.0
GRAD_SCALE = 16384.0


def squeeze(grad):
    """Clip to what the scaled 8-bit format holds; mantissas are left as they are."""
    return (grad * GRAD_SCALE).clamp(-E5M2_MAX, E5M2_MAX) / GRAD_SCALE


class ScaledLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.T)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad = squeeze(grad_output)
        grad_x = grad @ weight if ctx.needs_input_grad[0] else None
        grad_weight = grad.T @ x if ctx.needs_input_grad[1] else None
        grad_bias = grad.sum(dim=0) if ctx.needs_input_grad[2] else None
        return grad_x, grad_weight, grad_bias


op = ScaledLinear.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(32, 24, generator=gen, dtype=torch.float32)
    weight = torch.randn(16, 24, generator=gen, dtype=torch.float32) / 5
    bias = torch.zeros(16)
    return x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_()
