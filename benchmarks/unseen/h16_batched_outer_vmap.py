"""A symmetric outer product with a gain, and a batching rule that moves nothing.

Healthy: it looks suspicious, because the rule puts the batch last, where it likes it
best, and says so in its out dimension; unbatched arguments get a batch of one.
"""

import torch
from torch import Tensor

FAULT = None
KIND = "vmap"


class OuterLast(torch.autograd.Function):
    """The rule's own Function: vectors in columns, a matrix for each column."""

    @staticmethod
    def forward(u, v):
        return u.unsqueeze(1) * v.unsqueeze(0) + v.unsqueeze(1) * u.unsqueeze(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        u, v = ctx.saved_tensors
        both = grad + grad.transpose(0, 1)
        grad_u = (both * v.unsqueeze(0)).sum(dim=1)
        grad_v = (both * u.unsqueeze(0)).sum(dim=1)
        return grad_u.sum_to_size(u.shape), grad_v.sum_to_size(v.shape)

    @staticmethod
    def vmap(info, in_dims, u, v):
        u = u.unsqueeze(-1) if in_dims[0] is None else u.movedim(in_dims[0], -1)
        v = v.unsqueeze(-1) if in_dims[1] is None else v.movedim(in_dims[1], -1)
        while u.dim() < v.dim():
            u = u.unsqueeze(-2)
        while v.dim() < u.dim():
            v = v.unsqueeze(-2)
        return OuterLast.apply(u, v), -1


op = OuterLast.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    u = torch.randn(7, generator=gen, dtype=torch.float64)
    v = torch.randn(7, generator=gen, dtype=torch.float64)
    return u.requires_grad_(), v.requires_grad_()
