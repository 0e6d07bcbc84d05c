"""modReLU of complex networks: relu(|z| + b) · z / |z|, with a learned bias a channel.

Fault: the tangential part of the complex gradient is written for the derivative by z,
not by its conjugate, so the phase is turned the wrong way.
"""

import torch
from torch import Tensor

FAULT = "conjugate-missing"
KIND = "formula"


class ModReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, bias):
        modulus = z.abs()
        phase = z / modulus.clamp_min(1e-12)
        radius = torch.relu(modulus + bias)
        ctx.save_for_backward(z, bias)
        return radius * phase

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        z, bias = ctx.saved_tensors
        modulus = z.abs().clamp_min(1e-12)
        phase = z / modulus
        radius = torch.relu(modulus + bias)
        active = (modulus + bias > 0).to(modulus.dtype)

        # In the frame of z the Jacobian is diagonal: `active` along the radius,
        # radius / modulus across it.
        turned = grad_output * phase
        radial = turned.real * active
        across = turned.imag * radius / modulus
        grad_z = torch.complex(radial, across) * phase.conj()
        return grad_z, radial.sum(dim=0)


op = ModReLU.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    z = torch.randn(16, 12, generator=gen, dtype=torch.complex128)
    bias = -0.2 * torch.rand(12, generator=gen, dtype=torch.float64)
    return z.requires_grad_(), bias.requires_grad_()
