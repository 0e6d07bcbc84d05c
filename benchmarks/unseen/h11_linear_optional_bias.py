"""A linear layer with an optional bias that computes only what somebody asked for.

Healthy: it looks suspicious, because backward returns more values than there may be
inputs, and other ones for other subsets. Surplus trailing Nones are legal, and each
gradient is asked for by its own flag.
"""

import torch
from torch import Tensor

FAULT = None
KIND = "gradient count"


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, *optional):
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bool(optional)
        out = x @ weight.t()
        return out + optional[0] if optional else out

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_x = grad_output @ weight
        if ctx.needs_input_grad[1]:
            rows = x.reshape(-1, x.shape[-1])
            grad_weight = grad_output.reshape(-1, weight.shape[0]).t() @ rows
        if ctx.has_bias and ctx.needs_input_grad[2]:
            grad_bias = grad_output.reshape(-1, weight.shape[0]).sum(dim=0)
        return grad_x, grad_weight, grad_bias, None


def op(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if bias is None:
        return Linear.apply(x, weight)
    return Linear.apply(x, weight, bias)


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, None]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 5, 16, generator=gen, dtype=torch.float64)
    weight = torch.randn(10, 16, generator=gen, dtype=torch.float64) / 4
    return x.requires_grad_(), weight.requires_grad_(), None
