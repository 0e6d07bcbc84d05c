"""The gate of a transformer's feed-forward block, silu(a) · b, saving only its inputs.

The mistake (BP101): backward recomputes the activation with the slope 1.702 of the
sigmoid approximation of gelu, which forward does not have.
"""

import torch


class GatedSilu(torch.autograd.Function):
    """y = a · sigmoid(a) · b."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * torch.sigmoid(a) * b

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        gate = torch.sigmoid(1.702 * a)  # recomputed, not saved
        activation = a * gate
        grad_a = grad_output * b * (gate + activation * (1 - gate))
        return grad_a, grad_output * activation


op = GatedSilu.apply


def inputs(seed=0):
    """A block of activations in float32, and a larger one in bfloat16."""
    gen = torch.Generator().manual_seed(seed)
    a, b = torch.randn(2, 8, 16, generator=gen)
    yield a.requires_grad_(), b.requires_grad_()
    a, b = torch.randn(2, 64, 64, generator=gen).to(torch.bfloat16)
    yield a.requires_grad_(), b.requires_grad_()
