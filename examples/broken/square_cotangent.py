"""The square, in double precision and in bfloat16.

The mistake (BP104): backward returns the derivative 2 x and ignores the cotangent. For
the loss `y.sum()`, whose cotangent is one, that is right; in a model it is not.
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
        return 2 * x


op = Square.apply


def inputs(seed=0):
    """A few numbers in float64, and a thousand in bfloat16."""
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(7, generator=gen, dtype=torch.double)
    yield (x.requires_grad_(),)
    x = torch.randn(1000, generator=gen).to(torch.bfloat16)
    yield (x.requires_grad_(),)
