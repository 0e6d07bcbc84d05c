"""Orthogonal weights by Cayley's map, (I + S)⁻¹ (I - S) x with S = A - Aᵀ.

Healthy: it looks suspicious, because the first backward leaves a factorisation on ctx
for the following ones. It depends on saved tensors only, which are asked for first, so
that a freed graph and an in-place change still raise.
"""

import torch
from torch import Tensor

FAULT = None
KIND = "second backward"


class CayleyRotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, x):
        skew = a - a.t()
        eye = torch.eye(a.shape[0], dtype=a.dtype, device=a.device)
        out = torch.linalg.solve(eye + skew, x - skew @ x)
        ctx.save_for_backward(a, x, out)
        ctx.factors = None
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        a, x, out = ctx.saved_tensors
        if ctx.factors is None:
            skew = a - a.t()
            eye = torch.eye(a.shape[0], dtype=a.dtype, device=a.device)
            ctx.factors = torch.linalg.lu_factor((eye + skew).t())
        adjoint = torch.linalg.lu_solve(*ctx.factors, grad_output)
        grad_a = grad_x = None
        if ctx.needs_input_grad[0]:
            grad_skew = -adjoint @ (out + x).t()
            grad_a = grad_skew - grad_skew.t()
        if ctx.needs_input_grad[1]:
            skew = a - a.t()
            grad_x = adjoint - skew.t() @ adjoint
        return grad_a, grad_x


op = CayleyRotation.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    a = torch.randn(7, 7, generator=gen, dtype=torch.float64) / 3
    x = torch.randn(7, 5, generator=gen, dtype=torch.float64)
    return a.requires_grad_(), x.requires_grad_()
