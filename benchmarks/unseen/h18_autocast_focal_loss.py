"""Focal loss of logits, computed in float32 whatever autocast says around it.

Healthy: it looks suspicious, because the same call has other inner types under autocast.
Forward casts its inputs up and switches autocast off, backward runs under the same
setting, and the engine returns gradients in the inputs' types.
"""

import torch
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable
from torch.nn import functional

FAULT = None
KIND = "autocast"


class FocalLoss(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, logits, targets, gamma):
        sign = 2 * targets - 1
        log_p = functional.logsigmoid(logits * sign)
        loss = -(1 - log_p.exp()).pow(gamma) * log_p
        ctx.save_for_backward(logits, targets)
        ctx.gamma = gamma
        return loss.sum() / logits.shape[0]

    @staticmethod
    @custom_bwd(device_type="cpu")
    @once_differentiable
    def backward(ctx, grad_output):
        logits, targets = ctx.saved_tensors
        gamma = ctx.gamma
        sign = 2 * targets - 1
        log_p = functional.logsigmoid(logits * sign)
        p = log_p.exp()
        slope = gamma * p * log_p * (1 - p).pow(gamma) - (1 - p).pow(gamma + 1)
        return grad_output * sign * slope / logits.shape[0], None, None


def op(x: Tensor, weight: Tensor, targets: Tensor, gamma: float) -> Tensor:
    return FocalLoss.apply(functional.linear(x, weight), targets, gamma)


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, float]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(40, 10, generator=gen, dtype=torch.float32)
    weight = torch.randn(4, 10, generator=gen, dtype=torch.float32) / 2
    targets = torch.randint(0, 2, (40, 4), generator=gen).to(torch.float32)
    return x.requires_grad_(), weight.requires_grad_(), targets, 2.0
