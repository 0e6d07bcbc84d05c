"""Learned step size quantisation: clamp, round, rescale, with a gradient for the step.

`EXPECT` is the gradient that is meant: straight through inside the clamp, and for the
step size round(v) - v inside and the clamp's bound outside, times a gradient scale.

Fault: for the step size, backward uses round(v) inside the clamp and drops the -v.
"""

import torch
from torch import Tensor

FAULT = "step-gradient-without-residual"
KIND = "surrogate"

LOW, HIGH = -8, 7


def gradient_scale(x):
    return 1.0 / (x.numel() * HIGH) ** 0.5


class LearnedStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, step):
        ctx.save_for_backward(x, step)
        return (x / step).clamp(LOW, HIGH).round() * step

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, step = ctx.saved_tensors
        v = x / step
        inside = (v >= LOW) & (v <= HIGH)
        by_step = torch.where(inside, v.round(), v.clamp(LOW, HIGH))
        grad_step = (grad_output * by_step).sum().reshape(step.shape)
        return grad_output * inside, grad_step * gradient_scale(x)


op = LearnedStep.apply


def EXPECT(g: Tensor, x: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:  # noqa: N802
    v = x / step
    inside = (v >= LOW) & (v <= HIGH)
    by_step = torch.where(inside, v.round() - v, v.clamp(LOW, HIGH))
    return g * inside, (g * by_step).sum().reshape(step.shape) * gradient_scale(x)


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 32, generator=gen, dtype=torch.float32)
    step = torch.tensor([0.17])
    return x.requires_grad_(), step.requires_grad_()
