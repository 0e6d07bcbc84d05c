"""Covariance pooling of (N, C, L) features, its backward hurried by `torch.no_grad`.

Fault: part of backward runs under `no_grad`, so a gradient penalty sees the cotangent's
dependence but not the features'; the second derivative misses a term.
"""

import torch
from torch import Tensor

FAULT = "no-grad-inside-backward"
KIND = "second order"


class CovariancePool(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        length = x.shape[2]
        centred = x - x.mean(dim=2, keepdim=True)
        ctx.save_for_backward(x)
        return centred @ centred.transpose(1, 2) / (length - 1)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        length = x.shape[2]
        with torch.no_grad():  # "only the statistics, they need no graph"
            centred = x - x.mean(dim=2, keepdim=True)
        symmetric = grad_output + grad_output.transpose(1, 2)
        # The mean of `centred` is zero, so centring adds no term of its own.
        return symmetric @ centred / (length - 1)


op = CovariancePool.apply


def inputs(seed: int = 0) -> tuple[Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 6, 20, generator=gen, dtype=torch.float64)
    return (x.requires_grad_(),)
