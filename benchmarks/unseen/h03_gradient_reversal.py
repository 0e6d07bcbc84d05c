"""Gradient reversal for domain-adversarial training: identity forward, -λ backward.

Healthy: it looks suspicious, because the gradient is the negative of forward's
derivative. That is the whole purpose, and `EXPECT` says so.
"""

import torch
from torch import Tensor

FAULT = None
KIND = "surrogate"


class GradientReversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, features, strength):
        ctx.strength = strength
        return features.view_as(features)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.neg() * ctx.strength, None


op = GradientReversal.apply


def EXPECT(g: Tensor, features: Tensor, strength: float) -> tuple[Tensor, None]:  # noqa: N802
    return -strength * g, None


def inputs(seed: int = 0) -> tuple[Tensor, float]:
    gen = torch.Generator().manual_seed(seed)
    features = torch.randn(32, 64, generator=gen, dtype=torch.float32)
    return features.requires_grad_(), 0.3
