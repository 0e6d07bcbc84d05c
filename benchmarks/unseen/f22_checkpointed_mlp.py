"""A feed-forward block with dropout that recomputes its hidden layer in backward.

Fault: dropout is drawn again by the recomputation, with the random state as it is then;
other units are dropped on the way back than on the way there.
"""

import torch
from torch import Tensor
from torch.nn import functional

FAULT = "dropout-drawn-again"
KIND = "recomputation"


def block(x, w1, b1, w2, p):
    hidden = functional.gelu(functional.linear(x, w1, b1))
    return functional.linear(functional.dropout(hidden, p, training=True), w2)


class CheckpointedMLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w1, b1, w2, p):
        ctx.save_for_backward(x, w1, b1, w2)
        ctx.p = p
        return block(x, w1, b1, w2, p)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        leaves = [t.detach().requires_grad_() for t in ctx.saved_tensors]
        with torch.enable_grad():
            out = block(*leaves, ctx.p)
        return *torch.autograd.grad(out, leaves, grad_output), None


op = CheckpointedMLP.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(16, 24, generator=gen, dtype=torch.float32)
    w1 = torch.randn(48, 24, generator=gen, dtype=torch.float32) / 5
    b1 = torch.zeros(48)
    w2 = torch.randn(24, 48, generator=gen, dtype=torch.float32) / 7
    return (*(t.requires_grad_() for t in (x, w1, b1, w2)), 0.25)
