"""Mish, x · tanh(softplus(x)), with its derivative in exponentials of x.

Fault: forward uses the stable softplus, backward a quotient of polynomials in exp(x).
In float32 both of its parts overflow from x = 22.2 on, and the gradient is nan where
forward is simply x.
"""

import torch
from torch import Tensor
from torch.nn import functional

FAULT = "exponential-overflows-in-backward"
KIND = "dtype limits"


class Mish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.tanh(functional.softplus(x))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        e = torch.exp(x)
        e2, e3 = e * e, e * e * e
        omega = 4 * (x + 1) + 4 * e2 + e3 + e * (4 * x + 6)
        delta = 2 * e + e2 + 2
        return grad_output * e * omega / (delta * delta)


op = Mish.apply


def inputs(seed: int = 0) -> tuple[Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = 2 * torch.randn(16, 64, generator=gen, dtype=torch.float32)
    return (x.requires_grad_(),)
