"""Checkpointing of a residual block that is a module, reached through a global.

Fault: backward asks for the gradient of the block's input only. The block's own
parameters never pass through `apply`, and stay without any gradient.
"""

import torch
from torch import Tensor, nn

FAULT = "module-parameters-get-no-gradient"
KIND = "captured tensor"


def residual_branch(width: int) -> nn.Sequential:
    branch = nn.Sequential(
        nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU()
    ).double()
    with torch.no_grad():
        for index, parameter in enumerate(branch.parameters()):
            ramp = torch.linspace(-1, 1, parameter.numel(), dtype=torch.float64)
            parameter.copy_(torch.sin(ramp * (7 + index)).view_as(parameter) / 2)
    return branch


BRANCH = residual_branch(10)


class CheckpointedBranch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, branch, x):
        ctx.branch = branch
        ctx.save_for_backward(x)
        with torch.no_grad():
            return branch(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            out = ctx.branch(x)
        (grad_x,) = torch.autograd.grad(out, x, grad_output)
        return None, grad_x


def op(x: Tensor) -> Tensor:
    return CheckpointedBranch.apply(BRANCH, x)


def inputs(seed: int = 0) -> tuple[Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 10, generator=gen, dtype=torch.float64)
    return (x.requires_grad_(),)
