"""A learned temperature: logits / exp(t), its backward written for a small footprint.

Fault: backward divides the cotangent in place. Any other consumer of that tensor, such
as a residual branch, then goes on with the divided one.
"""

import torch
from torch import Tensor

FAULT = "cotangent-overwritten"
KIND = "mutation"


class Temperature(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, log_temperature):
        scale = torch.exp(-log_temperature)
        scaled = logits * scale
        ctx.save_for_backward(scaled, log_temperature)
        return scaled

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        scaled, log_temperature = ctx.saved_tensors
        grad_t = None
        if ctx.needs_input_grad[1]:
            grad_t = -(grad_output * scaled).sum().reshape(log_temperature.shape)
        grad_logits = grad_output.mul_(torch.exp(-log_temperature))
        return grad_logits, grad_t


op = Temperature.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    logits = torch.randn(32, 100, generator=gen, dtype=torch.float32)
    log_temperature = torch.tensor(0.4)
    return logits.requires_grad_(), log_temperature.requires_grad_()
