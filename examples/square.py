"""The square, in double precision and in bfloat16.

In 16 bits one product has about three digits, so that the second set of inputs is
larger: what a single element cannot show, a thousand can.
"""

import torch


class Square(torch.autograd.Function):
    """y = x²."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 2 * x


op = Square.apply


def inputs(seed=0):
    """A few numbers in float64, and a thousand in bfloat16."""
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(7, generator=gen, dtype=torch.double)
    yield (x.requires_grad_(),)
    x = torch.randn(1000, generator=gen).to(torch.bfloat16)
    yield (x.requires_grad_(),)
