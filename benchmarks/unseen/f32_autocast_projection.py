"""A linear layer fused with squared ReLU, as in recent language models.

Fault: nothing is said about autocast. Under it the matrix product of forward runs in
bfloat16, and backward, which runs outside, multiplies a bfloat16 cotangent by float32
weights and raises.
"""

import torch
from torch import Tensor
from torch.nn import functional

FAULT = "backward-dtypes-differ-under-autocast"
KIND = "autocast"


class LinearSquaredReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        pre = functional.linear(x, weight, bias)
        rectified = torch.relu(pre)
        ctx.save_for_backward(x, weight, rectified)
        return rectified * rectified

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, weight, rectified = ctx.saved_tensors
        grad_pre = grad_output * 2 * rectified
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.mm(grad_pre, weight)
        if ctx.needs_input_grad[1]:
            grad_weight = torch.mm(grad_pre.t(), x)
        if ctx.needs_input_grad[2]:
            grad_bias = grad_pre.sum(dim=0)
        return grad_x, grad_weight, grad_bias


op = LinearSquaredReLU.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(20, 16, generator=gen, dtype=torch.float32)
    weight = torch.randn(32, 16, generator=gen, dtype=torch.float32) / 4
    bias = torch.randn(32, generator=gen, dtype=torch.float32) / 10
    return x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_()
