"""sin(πx)/(πx) with its removable singularity, in reverse and forward mode.

Healthy: it looks suspicious, because near zero another formula (a series) takes over in
value, backward and jvp, and because cotangents and tangents may be missing.
"""

import math

import torch
from torch import Tensor

FAULT = None
KIND = "forward mode"

NEAR = 0.5  # beyond, the closed forms lose no digits that matter
VALUE_RATIOS = (6, 20, 42, 72, 110, 156, 210)
SLOPE_RATIOS = (10, 28, 54, 88, 130, 180)


def alternating_series(t2, ratios):
    """1 - t²/r₁ (1 - t²/r₂ (1 - …)), by Horner's scheme."""
    total = torch.ones_like(t2)
    for ratio in reversed(ratios):
        total = 1 - t2 / ratio * total
    return total


def value(t):
    near = t.abs() < NEAR
    safe = torch.where(near, torch.ones_like(t), t)
    series = alternating_series(t * t, VALUE_RATIOS)
    return torch.where(near, series, torch.sin(safe) / safe)


def slope(t):
    """The derivative of sin(t)/t."""
    near = t.abs() < NEAR
    safe = torch.where(near, torch.ones_like(t), t)
    series = -t / 3 * alternating_series(t * t, SLOPE_RATIOS)
    direct = (torch.cos(safe) - torch.sin(safe) / safe) / safe
    return torch.where(near, series, direct)


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
    x[:8] = torch.tensor([0, 1e-9, -1e-4, 3e-3, -0.05, 1, -2, 1e-20])
    return (x.requires_grad_(),)
