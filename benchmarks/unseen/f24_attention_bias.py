"""Attention of one head with an additive relative-position bias.

Fault: the bias was a constant mask once; now it is learned, and backward still returns
None for it.
"""

import torch
from torch import Tensor

FAULT = "none-for-learned-bias"
KIND = "gradient count"


class BiasedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, bias, scale):
        probs = torch.softmax(q @ k.transpose(-1, -2) * scale + bias, dim=-1)
        ctx.save_for_backward(q, k, v, probs)
        ctx.scale = scale
        return probs @ v

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_out):
        q, k, v, probs = ctx.saved_tensors
        grad_v = probs.transpose(-1, -2) @ grad_out
        grad_probs = grad_out @ v.transpose(-1, -2)
        inner = (grad_probs * probs).sum(dim=-1, keepdim=True)
        grad_scores = probs * (grad_probs - inner)
        grad_q = grad_scores @ k * ctx.scale
        grad_k = grad_scores.transpose(-1, -2) @ q * ctx.scale
        return grad_q, grad_k, grad_v, None, None


op = BiasedAttention.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    gen = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(2, 12, 8, generator=gen, dtype=torch.float32) for _ in range(3)
    )
    bias = torch.randn(12, 12, generator=gen, dtype=torch.float32) / 2
    q, k, v, bias = (t.requires_grad_() for t in (q, k, v, bias))
    return q, k, v, bias, 8**-0.5
