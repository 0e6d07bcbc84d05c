"""softplus, log(1 + exp(x)), in a form that never overflows.

`composed` is what one would write down first. In float32 its exp overflows from 89 on,
so that its value is inf and its gradient nan, and below -17 it rounds to zero. The
closed form keeps all digits over the whole range, and so does its derivative, the
logistic sigmoid.
"""

import torch


def composed(x):
    """The form that this op replaces."""
    return torch.log(1 + torch.exp(x))


class StableSoftplus(torch.autograd.Function):
    """y = max(x, 0) + log1p(exp(-|x|))."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0) + torch.log1p(torch.exp(-x.abs()))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.sigmoid(x)


op = StableSoftplus.apply


def inputs(seed=0):
    """Values of everyday size, and two from beyond the range of exp."""
    gen = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(30, generator=gen)
    x[:2] = torch.tensor([-120.0, 120.0])
    return (x.requires_grad_(),)
