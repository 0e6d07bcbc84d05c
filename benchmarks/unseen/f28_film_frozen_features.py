"""Feature-wise modulation: γ(c) · x + β(c), γ and β being linear in a condition c.

Fault: all gradients are computed under the question whether x needs one. With frozen
features the modulation's weights silently get none.
"""

import torch
from torch import Tensor

FAULT = "weights-depend-on-input-needing-gradient"
KIND = "subset"


class Modulate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, condition, w_gamma, w_beta):
        gamma = condition @ w_gamma
        beta = condition @ w_beta
        ctx.save_for_backward(x, condition, w_gamma, w_beta)
        return gamma[:, :, None] * x + beta[:, :, None]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, condition, w_gamma, w_beta = ctx.saved_tensors
        grad_x = grad_condition = grad_w_gamma = grad_w_beta = None
        if ctx.needs_input_grad[0]:
            grad_x = grad_output * (condition @ w_gamma)[:, :, None]
            grad_gamma = (grad_output * x).sum(dim=2)
            grad_beta = grad_output.sum(dim=2)
            grad_w_gamma = condition.T @ grad_gamma
            grad_w_beta = condition.T @ grad_beta
            grad_condition = grad_gamma @ w_gamma.T + grad_beta @ w_beta.T
        return grad_x, grad_condition, grad_w_gamma, grad_w_beta


op = Modulate.apply


def inputs(seed: int = 0) -> tuple[Tensor, ...]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(4, 6, 15, generator=gen, dtype=torch.float64)
    condition = torch.randn(4, 5, generator=gen, dtype=torch.float64)
    w_gamma = torch.randn(5, 6, generator=gen, dtype=torch.float64)
    w_beta = torch.randn(5, 6, generator=gen, dtype=torch.float64)
    return tuple(t.requires_grad_() for t in (x, condition, w_gamma, w_beta))
