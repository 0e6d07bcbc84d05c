"""A deep-equilibrium layer: z = tanh(W z + U x + b), differentiated implicitly.

Fault: the linear system of the implicit function theorem is solved with the Jacobian
itself instead of its transpose, which goes unnoticed while W is symmetric.
"""

import torch
from torch import Tensor

FAULT = "implicit-solve-not-transposed"
KIND = "formula"


def equilibrium(w, drive, steps=200):
    z = torch.zeros_like(drive)
    for _ in range(steps):
        z = torch.tanh(z @ w.T + drive)
    return z


class Equilibrium(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w, u, b, x):
        z = equilibrium(w, x @ u.T + b)
        ctx.save_for_backward(w, u, x, z)
        return z

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_z):
        w, u, x, z = ctx.saved_tensors
        slope = 1 - z * z
        # One small system a sample: (I - D W)ᵀ a = cotangent.
        jacobian = slope.unsqueeze(2) * w.unsqueeze(0)
        identity = torch.eye(w.shape[0], dtype=w.dtype, device=w.device)
        adjoint = torch.linalg.solve(identity - jacobian, grad_z.unsqueeze(2))
        grad_drive = adjoint.squeeze(2) * slope

        grad_w = grad_drive.T @ z
        grad_u = grad_drive.T @ x
        grad_b = grad_drive.sum(dim=0)
        return grad_w, grad_u, grad_b, grad_drive @ u


op = Equilibrium.apply


def inputs(seed: int = 0) -> tuple[Tensor, ...]:
    gen = torch.Generator().manual_seed(seed)
    w = torch.randn(6, 6, generator=gen, dtype=torch.float64) * 0.25
    u = torch.randn(6, 4, generator=gen, dtype=torch.float64)
    b = torch.randn(6, generator=gen, dtype=torch.float64) * 0.1
    x = torch.randn(5, 4, generator=gen, dtype=torch.float64)
    return tuple(t.requires_grad_() for t in (w, u, b, x))
