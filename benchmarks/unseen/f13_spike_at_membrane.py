"""A spiking neuron's threshold: fires where the membrane reaches θ, arctan surrogate.

`EXPECT` is the surrogate that is meant, centred where the neuron fires.

Fault: backward evaluates the surrogate at the membrane potential, not at its distance
from the threshold, so that the bell sits at rest instead of at firing.
"""

import math

import torch
from torch import Tensor

FAULT = "surrogate-not-centred"
KIND = "surrogate"


class ArctanSpike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, membrane, threshold, alpha):
        ctx.save_for_backward(membrane)
        ctx.threshold = threshold
        ctx.alpha = alpha
        return (membrane >= threshold).to(membrane.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_spike):
        (membrane,) = ctx.saved_tensors
        scaled = math.pi / 2 * ctx.alpha * membrane
        return grad_spike * (ctx.alpha / 2) / (1 + scaled * scaled), None, None


op = ArctanSpike.apply


def EXPECT(  # noqa: N802
    g: Tensor, membrane: Tensor, threshold: float, alpha: float
) -> tuple[Tensor, None, None]:
    scaled = math.pi / 2 * alpha * (membrane - threshold)
    return g * (alpha / 2) / (1 + scaled * scaled), None, None


def inputs(seed: int = 0) -> tuple[Tensor, float, float]:
    gen = torch.Generator().manual_seed(seed)
    membrane = 0.6 + 0.8 * torch.randn(20, 40, generator=gen, dtype=torch.float32)
    return membrane.requires_grad_(), 1.0, 2.0
