"""A linear layer, y = x wᵀ + b, whose bias may be left out.

The mistake (BP101): the gradient of x multiplies by wᵀ where w is right. The layer is
square, so the shapes fit and nothing is raised.

Shapes: x (batch, n), weight (n, n), bias (n,) -> y (batch, n).
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
            grad_x = grad_output @ weight.T
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.T @ x
        if ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_x, grad_weight, grad_bias


op = Linear.apply


def inputs(seed=0):
    """A batch of 16, with the bias and without."""
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(16, 12, generator=gen, requires_grad=True)
    weight = torch.randn(12, 12, generator=gen, requires_grad=True)
    bias = torch.randn(12, generator=gen, requires_grad=True)
    yield x, weight, bias
    yield x, weight, None
