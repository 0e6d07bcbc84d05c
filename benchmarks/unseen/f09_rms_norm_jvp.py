"""RMSNorm over the last axis with a gain, usable in forward mode.

Fault: the jvp treats the root mean square as a constant: the tangent misses the part
that goes through the statistics. Backward has it.
"""

import torch
from torch import Tensor

FAULT = "jvp-without-statistics"
KIND = "forward mode"

EPS = 1e-6


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(x, weight):
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + EPS) * weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight = inputs
        ctx.save_for_backward(x, weight)
        ctx.save_for_forward(x, weight)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad_output):
        if grad_output is None:
            return None, None
        x, weight = ctx.saved_tensors
        rstd = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + EPS)
        normed = x * rstd
        scaled = grad_output * weight
        slope = (scaled * normed).mean(dim=-1, keepdim=True)
        leading = tuple(range(x.dim() - 1))
        return rstd * (scaled - normed * slope), (grad_output * normed).sum(leading)

    @staticmethod
    def jvp(ctx, x_t, weight_t):
        x, weight = ctx.saved_tensors
        rstd = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + EPS)
        tangent = torch.zeros_like(x)
        if x_t is not None:
            tangent = tangent + x_t * rstd * weight
        if weight_t is not None:
            tangent = tangent + x * rstd * weight_t
        return tangent


op = RMSNorm.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(4, 7, 16, generator=gen, dtype=torch.float64)
    weight = 1 + 0.1 * torch.randn(16, generator=gen, dtype=torch.float64)
    return x.requires_grad_(), weight.requires_grad_()
