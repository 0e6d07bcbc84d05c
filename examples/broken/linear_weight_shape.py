"""A linear layer, y = x wᵀ + b, whose bias may be left out.

The mistake (BP502): the gradient of the weight comes out as (in, out), transposed.

Shapes: x (batch, in), weight (out, in), bias (out,) -> y (batch, out).
"""

import torch


class Linear(torch.autograd.Function):
    """y = x wᵀ + b; only the gradients that somebody needs are computed."""

    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight)
        y = x @ weight.T
        return y if bias is None else y + bias

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_x = grad_output @ weight
        if ctx.needs_input_grad[1]:
            grad_weight = x.T @ grad_output
        if ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_x, grad_weight, grad_bias


op = Linear.apply


def inputs(seed=0):
    """A batch of 16, with the bias and without."""
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(16, 12, generator=gen, requires_grad=True)
    weight = torch.randn(8, 12, generator=gen, requires_grad=True)
    bias = torch.randn(8, generator=gen, requires_grad=True)
    yield x, weight, bias
    yield x, weight, None
