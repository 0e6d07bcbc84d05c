"""Swish with a learned slope, x · σ(β x), that saves its gate to spare a sigmoid.

Fault: the gate is an intermediate of forward, a constant to autograd; backward allows a
second differentiation, and the terms through the gate are lost without a word.
"""

import torch
from torch import Tensor

FAULT = "saved-intermediate-in-second-order"
KIND = "second order"


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, beta):
        gate = torch.sigmoid(beta * x)
        ctx.save_for_backward(x, beta, gate)
        return x * gate

    @staticmethod
    def backward(ctx, grad_output):
        x, beta, gate = ctx.saved_tensors
        bell = gate * (1 - gate)
        grad_x = grad_output * (gate + beta * x * bell)
        grad_beta = (grad_output * x * x * bell).sum(dim=0)
        return grad_x, grad_beta


op = Swish.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(12, 16, generator=gen, dtype=torch.float64)
    beta = 1 + 0.3 * torch.randn(16, generator=gen, dtype=torch.float64)
    return x.requires_grad_(), beta.requires_grad_()
