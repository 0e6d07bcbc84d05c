"""A spike: one where the potential exceeds the threshold, else zero.

The mistake (BP107): the surrogate gradient that `EXPECT` declares is
1 / (1 + 10 |v - threshold|)², and backward leaves out the sharpness of 10.
"""

import torch

SHARPNESS = 10.0


class Spike(torch.autograd.Function):
    """The step of v - threshold; backward is that of a fast sigmoid."""

    @staticmethod
    def forward(ctx, v, threshold):
        ctx.save_for_backward(v)
        ctx.threshold = threshold
        return (v > threshold).to(v.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        (v,) = ctx.saved_tensors
        distance = (v - ctx.threshold).abs()
        return grad_output / (1 + distance) ** 2, None


op = Spike.apply


def inputs(seed=0):
    """Potentials around a threshold of 0.5, one of them right on it."""
    gen = torch.Generator().manual_seed(seed)
    v = 0.5 + 0.3 * torch.randn(32, generator=gen)
    v[0] = 0.5
    return v.requires_grad_(), 0.5


def fast_sigmoid(cotangent, v, threshold):
    """The intended gradients: the fast sigmoid's for v, none for the threshold."""
    return cotangent / (1 + SHARPNESS * (v - threshold).abs()).square(), None


EXPECT = fast_sigmoid
