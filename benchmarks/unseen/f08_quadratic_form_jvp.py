"""Batched quadratic form xᵀ A x, with both modes written by hand.

Fault: the jvp uses 2 xᵀ A dx, which holds for a symmetric A only; backward is right for
every A.
"""

import torch
from torch import Tensor

FAULT = "jvp-assumes-symmetry"
KIND = "forward mode"


class QuadraticForm(torch.autograd.Function):
    @staticmethod
    def forward(x, a):
        return torch.einsum("bi,ij,bj->b", x, a, x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, a = inputs
        ctx.save_for_backward(x, a)
        ctx.save_for_forward(x, a)

    @staticmethod
    def backward(ctx, grad_output):
        x, a = ctx.saved_tensors
        grad_x = grad_a = None
        if ctx.needs_input_grad[0]:
            grad_x = grad_output.unsqueeze(1) * (x @ (a + a.T))
        if ctx.needs_input_grad[1]:
            grad_a = torch.einsum("b,bi,bj->ij", grad_output, x, x)
        return grad_x, grad_a

    @staticmethod
    def jvp(ctx, x_t, a_t):
        x, a = ctx.saved_tensors
        tangent = x.new_zeros(x.shape[0])
        if x_t is not None:
            tangent = tangent + 2 * torch.einsum("bi,ij,bj->b", x, a, x_t)
        if a_t is not None:
            tangent = tangent + torch.einsum("bi,ij,bj->b", x, a_t, x)
        return tangent


op = QuadraticForm.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(9, 5, generator=gen, dtype=torch.float64)
    a = torch.randn(5, 5, generator=gen, dtype=torch.float64)
    return x.requires_grad_(), a.requires_grad_()
