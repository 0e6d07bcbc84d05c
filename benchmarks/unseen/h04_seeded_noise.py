"""Multiplicative noise from a seed, drawn again in backward rather than saved.

Healthy: it looks suspicious, because both passes seed the global generator. They do so
inside `fork_rng`, which puts the program's own state back, and inside an operator, so
that a traced program seeds too; the same seed gives the same noise.
"""

import torch
from torch import Tensor

FAULT = None
KIND = "global state"


@torch.library.custom_op("unseen::seeded_noise", mutates_args=())
def seeded_noise(like: Tensor, sigma: float, seed: int) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        drawn = torch.randn(like.shape, dtype=like.dtype, device=like.device)
    return 1 + sigma * drawn


@seeded_noise.register_fake
def _(like, sigma, seed):
    return like.new_empty(like.shape)


class SeededNoise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, sigma, seed):
        ctx.save_for_backward(x, scale)
        ctx.sigma, ctx.seed = sigma, seed
        return x * scale * seeded_noise(x, sigma, seed)

    @staticmethod
    def backward(ctx, grad_output):
        x, scale = ctx.saved_tensors
        grad = grad_output * seeded_noise(x.detach(), ctx.sigma, ctx.seed)
        return grad * scale, (grad * x).sum(dim=0), None, None


op = SeededNoise.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, float, int]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(14, 20, generator=gen, dtype=torch.float64)
    scale = 1 + 0.1 * torch.randn(20, generator=gen, dtype=torch.float64)
    return x.requires_grad_(), scale.requires_grad_(), 0.2, 1234
