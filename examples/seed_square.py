"""The square of the article "When do you write a custom torch.autograd.Function?".

The Function and its gradcheck call stand here as they were published; `inputs` tells
`backproof check` what to run it on.
"""
# ruff: noqa: D101

import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 2 * x


def inputs(seed=0):
    """Four numbers in double precision, as gradcheck wants them."""
    gen = torch.Generator().manual_seed(seed)
    a = torch.randn(4, generator=gen, dtype=torch.double, requires_grad=True)
    return (a,)


if __name__ == "__main__":
    a = torch.randn(4, dtype=torch.double, requires_grad=True)
    torch.autograd.gradcheck(Square.apply, (a,))
