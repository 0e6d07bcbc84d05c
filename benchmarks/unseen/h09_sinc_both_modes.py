"""sin(πx)/(πx) with its removable singularity, in reverse and forward mode.

Healthy: it looks suspicious, because near zero another formula (a series) takes over in
value, backward and jvp, and because cotangents and tangents may be missing.
"""

import math

import torch
from torch import Tensor

FAULT = None
KIND = "forward mode"

NEAR = 0.02


def value(t):
    t2 = t * t
    series = 1 - t2 / 6 * (1 - t2 / 20 * (1 - t2 / 42))
    safe = torch.where(t.abs() < NEAR, torch.ones_like(t), t)
    return torch.where(t.abs() < NEAR, series, torch.sin(safe) / safe)


def slope(t):
    """The derivative of sin(t)/t."""
    t2 = t * t
    series = -t / 3 * (1 - t2 / 10 * (1 - t2 / 28))
    safe = torch.where(t.abs() < NEAR, torch.ones_like(t), t)
    direct = (torch.cos(safe) - torch.sin(safe) / safe) / safe
    return torch.where(t.abs() < NEAR, series, direct)


class Sinc(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return value(math.pi * x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        if grad_output is None:
            return None
        (x,) = ctx.saved_tensors
        return grad_output * math.pi * slope(math.pi * x)

    @staticmethod
    def jvp(ctx, x_t):
        if x_t is None:
            return None
        (x,) = ctx.saved_tensors
        return x_t * math.pi * slope(math.pi * x)


op = Sinc.apply


def inputs(seed: int = 0) -> tuple[Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(60, generator=gen, dtype=torch.float64)
    x[:8] = torch.tensor([0, 1e-9, -1e-4, 3e-3, -5e-3, 1, -2, 1e-20])
    return (x.requires_grad_(),)
