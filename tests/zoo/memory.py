"""BP2xx: what calls share and change."""

import functools

import torch

from tests.zoo.member import guilty, normal


@guilty("BP204", normal(30))
class OneBufferForAll(torch.autograd.Function):
    """Its gradients live in one buffer, which the next call overwrites."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        gradient = _buffer(g.dtype)
        return gradient.copy_(g * x.cos())


@functools.cache
def _buffer(dtype):
    return torch.empty(30, dtype=dtype)
