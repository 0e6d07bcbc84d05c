"""Bias and GELU in one pass over bfloat16 activations, the bias's gradient in steps.

Fault: the bias's gradient is accumulated in bfloat16 over thousands of rows. Once it is
256 times as large as a row's share, nothing is added any more: a loss that sums gets a
fraction of its gradient.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

FAULT = "sum-accumulated-in-bfloat16"
KIND = "dtype limits"

ROWS_A_STEP = 2


class BiasGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):
        ctx.save_for_backward(x, bias)
        return functional.gelu(x.float() + bias.float()).to(x.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, bias = ctx.saved_tensors
        pre = x.float() + bias.float()
        bell = torch.exp(-0.5 * pre * pre) / math.sqrt(2 * math.pi)
        slope = 0.5 * (1 + torch.erf(pre / math.sqrt(2))) + pre * bell
        grad_x = (grad_output.float() * slope).to(x.dtype)
        grad_bias = torch.zeros_like(bias)
        for rows in grad_x.split(ROWS_A_STEP):
            grad_bias += rows.float().sum(dim=0).to(bias.dtype)
        return grad_x, grad_bias


op = BiasGelu.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(4096, 16, generator=gen).to(torch.bfloat16)
    bias = torch.randn(16, generator=gen).to(torch.bfloat16)
    return x.requires_grad_(), bias.requires_grad_()
