"""A reversible coupling block that rebuilds its inputs from its outputs in backward.

Fault: outputs wait on a stack of the class, in the belief that backwards come in the
reverse order of forwards. Two independent losses, differentiated in the order in which
they were computed, get each other's activations.
"""

from typing import ClassVar

import torch
from torch import Tensor

FAULT = "activations-on-class-stack"
KIND = "shared state"


class ReversibleBlock(torch.autograd.Function):
    outputs: ClassVar[list[tuple[Tensor, Tensor]]] = []

    @staticmethod
    def forward(ctx, x1, x2, f_weight, g_weight):
        y1 = x1 + torch.tanh(x2 @ f_weight)
        y2 = x2 + torch.tanh(y1 @ g_weight)
        ctx.save_for_backward(f_weight, g_weight)
        if any(ctx.needs_input_grad):
            ReversibleBlock.outputs.append((y1.detach(), y2.detach()))
        return y1, y2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_y1, grad_y2):
        f_weight, g_weight = ctx.saved_tensors
        y1, y2 = ReversibleBlock.outputs.pop()
        g_out = torch.tanh(y1 @ g_weight)
        x2 = y2 - g_out
        f_out = torch.tanh(x2 @ f_weight)

        grad_g = grad_y2 * (1 - g_out * g_out)
        grad_x1 = grad_y1 + grad_g @ g_weight.T
        grad_f = grad_x1 * (1 - f_out * f_out)
        grad_x2 = grad_y2 + grad_f @ f_weight.T
        return grad_x1, grad_x2, x2.T @ grad_f, y1.T @ grad_g


op = ReversibleBlock.apply


def inputs(seed: int = 0) -> tuple[Tensor, ...]:
    gen = torch.Generator().manual_seed(seed)
    x1 = torch.randn(6, 8, generator=gen, dtype=torch.float64)
    x2 = torch.randn(6, 8, generator=gen, dtype=torch.float64)
    f_weight = torch.randn(8, 8, generator=gen, dtype=torch.float64) / 3
    g_weight = torch.randn(8, 8, generator=gen, dtype=torch.float64) / 3
    return tuple(t.requires_grad_() for t in (x1, x2, f_weight, g_weight))
