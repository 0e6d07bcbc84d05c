"""Generalised mean pooling, its backward a pullback closure kept on ctx.

Fault: the closure holds the output, whose `grad_fn` holds ctx, which holds the closure.
A dropped graph keeps all its tensors until Python's cycle collector happens to run,
which counts objects and not megabytes.
"""

import torch
from torch import Tensor

FAULT = "ctx-closure-holds-output"
KIND = "leak"


class GeneralisedMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, power):
        clamped = x.clamp_min(1e-6)
        mean = clamped.pow(power).mean(dim=-1, keepdim=True)
        out = mean.pow(1 / power)

        def pullback(grad):
            share = (clamped / out).pow(power - 1) / x.shape[-1]
            grad_x = grad * share * (x >= 1e-6)
            weighted = (clamped.pow(power) * clamped.log()).mean(-1, keepdim=True)
            by_power = out * (weighted / (power * mean) - mean.log() / power**2)
            return grad_x, (grad * by_power).sum().reshape(power.shape)

        ctx.save_for_backward(x, power)
        ctx.pullback = pullback
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        return ctx.pullback(grad_output)


op = GeneralisedMean.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = 0.1 + torch.rand(5, 6, 30, generator=gen, dtype=torch.float64)
    power = torch.tensor([3.0], dtype=torch.float64)
    return x.requires_grad_(), power.requires_grad_()
