"""GroupNorm over (N, C, H, W) with saved statistics and a per-channel affine map.

Fault: the two means of backward are taken over one channel's pixels, although the
statistics of forward are shared by all channels of a group; with one channel a group
the two are the same.
"""

import torch
from torch import Tensor

FAULT = "group-statistics-per-channel"
KIND = "formula"


class GroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, groups, eps):
        n, c, h, w = x.shape
        grouped = x.reshape(n, groups, -1)
        mean = grouped.mean(dim=2, keepdim=True)
        var = grouped.var(dim=2, unbiased=False, keepdim=True)
        rstd = torch.rsqrt(var + eps)
        ctx.save_for_backward(x, weight, mean, rstd)
        ctx.groups = groups
        normed = ((grouped - mean) * rstd).view(n, c, h, w)
        return normed * weight.view(1, c, 1, 1) + bias.view(1, c, 1, 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, weight, mean, rstd = ctx.saved_tensors
        n, c, h, w = x.shape
        grouped = x.reshape(n, ctx.groups, -1)
        normed = ((grouped - mean) * rstd).view(n, c, h * w)
        grad = grad_output.reshape(n, c, h * w)
        grad_weight = (grad * normed).sum(dim=(0, 2))
        grad_bias = grad.sum(dim=(0, 2))

        grad_normed = grad * weight.view(1, c, 1)
        centre = grad_normed.mean(dim=2, keepdim=True)
        slope = (grad_normed * normed).mean(dim=2, keepdim=True)
        scale = rstd.repeat_interleave(c // ctx.groups, dim=1)
        grad_x = scale * (grad_normed - centre - normed * slope)
        return grad_x.view(n, c, h, w), grad_weight, grad_bias, None, None


op = GroupNorm.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, int, float]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 8, 5, 5, generator=gen, dtype=torch.float64)
    weight = 1 + 0.2 * torch.randn(8, generator=gen, dtype=torch.float64)
    bias = 0.1 * torch.randn(8, generator=gen, dtype=torch.float64)
    return x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), 2, 1e-5
