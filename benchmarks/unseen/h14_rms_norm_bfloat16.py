"""RMSNorm of bfloat16 activations, float32 inside, thousands of rows.

Healthy: it looks suspicious, because output and gradients carry eight bits only, so that
claim and forward differences agree to a few per cent at best. Statistics and the gain's
long sum are in float32 and rounded once.
"""

import torch
from torch import Tensor

FAULT = None
KIND = "dtype limits"


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain, eps):
        wide = x.to(torch.float32)
        rstd = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
        ctx.save_for_backward(x, gain, rstd)
        return (wide * rstd * gain.to(torch.float32)).to(x.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, gain, rstd = ctx.saved_tensors
        normed = x.to(torch.float32) * rstd
        grad = grad_output.to(torch.float32)
        scaled = grad * gain.to(torch.float32)
        slope = (scaled * normed).mean(dim=-1, keepdim=True)
        grad_x = (rstd * (scaled - normed * slope)).to(x.dtype)
        grad_gain = (grad * normed).reshape(-1, gain.numel()).sum(dim=0)
        return grad_x, grad_gain.to(gain.dtype), None


op = RMSNorm.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, float]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(2048, 32, generator=gen).to(torch.bfloat16)
    gain = (1 + 0.2 * torch.randn(32, generator=gen)).to(torch.bfloat16)
    return x.requires_grad_(), gain.requires_grad_(), 1e-5
