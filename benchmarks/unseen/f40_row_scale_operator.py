"""A custom operator: rows of a float matrix scaled by their largest magnitude.

It returns the scaled matrix and the scales.

Fault: the fake kernel keeps the scales' last axis, which the real one drops. Eager
runs are right; whatever is traced plans with a shape that never comes.
"""

import torch
from torch import Tensor

FAULT = "fake-shape-keeps-axis"
KIND = "fake"


@torch.library.custom_op("unseen::row_scale", mutates_args=())
def row_scale(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    scale = x.abs().amax(dim=-1) + eps
    return x / scale.unsqueeze(-1), scale


@row_scale.register_fake
def _(x, eps):
    return torch.empty_like(x), x.new_empty(*x.shape[:-1], 1)


def setup_context(ctx, inputs, output):
    x, _ = inputs
    _, scale = output
    ctx.save_for_backward(x, scale)


def backward(ctx, grad_scaled, grad_scale):
    x, scale = ctx.saved_tensors
    scale = scale.unsqueeze(-1)
    peak = x.abs().argmax(dim=-1, keepdim=True)
    total = grad_scale.unsqueeze(-1)
    total = total - (grad_scaled * x).sum(dim=-1, keepdim=True) / (scale * scale)
    through = torch.zeros_like(x)
    through = through.scatter(-1, peak, total * x.gather(-1, peak).sign())
    return grad_scaled / scale + through, None


row_scale.register_autograd(backward, setup_context=setup_context)

op = row_scale


def inputs(seed: int = 0) -> tuple[Tensor, float]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(16, 24, generator=gen, dtype=torch.float32)
    return x.requires_grad_(), 1e-6
