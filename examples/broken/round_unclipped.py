"""Rounding to eighths on [-1, 1], with the straight-through gradient.

The mistake (BP107): the gradient also passes where the value was clipped, against what
`EXPECT` declares. Values that ran out of the range then never come back.
"""

import torch


class RoundStraightThrough(torch.autograd.Function):
    """The nearest eighth of x clipped to [-1, 1]; the gradient passes everywhere."""

    @staticmethod
    def forward(ctx, x):
        return (8 * x.clamp(-1, 1)).round() / 8

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


op = RoundStraightThrough.apply


def inputs(seed=0):
    """Values on both sides of the clipping bounds, and the bounds themselves."""
    gen = torch.Generator().manual_seed(seed)
    x = 1.5 * torch.randn(64, generator=gen)
    x[:2] = torch.tensor([-1.0, 1.0])
    return (x.requires_grad_(),)


def clipped_straight_through(cotangent, x):
    """The intended gradient: the cotangent where |x| is at most one, else zero."""
    return (torch.where(x.abs() <= 1, cotangent, 0),)


EXPECT = clipped_straight_through
