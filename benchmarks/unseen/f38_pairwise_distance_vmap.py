"""Squared distances between two point sets, with a batching rule by hand.

Fault: the rule takes the first argument's batch dimension for both arguments, so that
a batch that lies elsewhere in the second is read along the wrong axis.
"""

import torch
from torch import Tensor

FAULT = "vmap-ignores-second-in-dim"
KIND = "vmap"


class SquaredDistances(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        # Valid with any number of leading batch dimensions.
        cross = x @ y.transpose(-1, -2)
        x2 = x.square().sum(dim=-1).unsqueeze(-1)
        y2 = y.square().sum(dim=-1).unsqueeze(-2)
        return x2 + y2 - 2 * cross

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        by_row = grad_output.sum(dim=-1, keepdim=True)
        by_column = grad_output.sum(dim=-2).unsqueeze(-1)
        grad_x = 2 * (by_row * x - grad_output @ y)
        grad_y = 2 * (by_column * y - grad_output.transpose(-1, -2) @ x)
        return grad_x, grad_y

    @staticmethod
    def vmap(info, in_dims, x, y):
        batch = in_dims[0] if in_dims[0] is not None else in_dims[1]
        if in_dims[0] is not None:
            x = x.movedim(batch, 0)
        if in_dims[1] is not None:
            y = y.movedim(batch, 0)
        return SquaredDistances.apply(x, y), 0


op = SquaredDistances.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 6, generator=gen, dtype=torch.float64)
    y = torch.randn(6, 6, generator=gen, dtype=torch.float64)
    return x.requires_grad_(), y.requires_grad_()
