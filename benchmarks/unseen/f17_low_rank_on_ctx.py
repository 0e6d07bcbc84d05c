"""A low-rank adapter: x Wᵀ + s · (x Aᵀ) Bᵀ, with W frozen and A and B trained.

Fault: the adapter's matrices are kept in a dictionary on ctx. An optimiser step in place
before backward (pipelined training) makes the gradients those of the new matrices; saved
properly, torch would raise.
"""

import torch
from torch import Tensor

FAULT = "tensors-kept-on-ctx"
KIND = "stale save"


class LowRankLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, frozen, a, b, scale):
        down = x @ a.T
        ctx.save_for_backward(x, frozen)
        ctx.adapter = {"a": a, "b": b, "scale": scale}
        return x @ frozen.T + scale * (down @ b.T)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, frozen = ctx.saved_tensors
        a, b, scale = ctx.adapter["a"], ctx.adapter["b"], ctx.adapter["scale"]
        grad_down = scale * (grad_output @ b)
        grad_x = grad_a = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_x = grad_output @ frozen + grad_down @ a
        if ctx.needs_input_grad[2]:
            grad_a = grad_down.T @ x
        if ctx.needs_input_grad[3]:
            grad_b = scale * (grad_output.T @ (x @ a.T))
        return grad_x, None, grad_a, grad_b, None


op = LowRankLinear.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(10, 32, generator=gen, dtype=torch.float32)
    frozen = torch.randn(24, 32, generator=gen, dtype=torch.float32) / 6
    a = torch.randn(4, 32, generator=gen, dtype=torch.float32) / 6
    b = torch.randn(24, 4, generator=gen, dtype=torch.float32) / 2
    return x.requires_grad_(), frozen, a.requires_grad_(), b.requires_grad_(), 2.0
