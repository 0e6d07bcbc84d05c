"""Layer scale on a residual branch: x + γ · branch, γ's gradient summed by row blocks.

Fault: the number of blocks is rounded down. Rows beyond the last whole block never
reach the gradient of γ; at the batch sizes of the author's tests there are none.
"""

import torch
from torch import Tensor

FAULT = "last-partial-block-dropped"
KIND = "size"

BLOCK_ROWS = 16


class LayerScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, branch, gamma):
        ctx.save_for_backward(branch, gamma)
        return torch.addcmul(x, branch, gamma)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        branch, gamma = ctx.saved_tensors
        grad_branch = grad_gamma = None
        if ctx.needs_input_grad[1]:
            grad_branch = grad_output * gamma
        if ctx.needs_input_grad[2]:
            rows = branch.reshape(-1, branch.shape[-1])
            grads = grad_output.reshape(-1, branch.shape[-1])
            size = min(BLOCK_ROWS, rows.shape[0])
            partial = [
                (grads[i * size : (i + 1) * size] * rows[i * size : (i + 1) * size])
                .sum(dim=0)
                .unsqueeze(0)
                for i in range(rows.shape[0] // max(size, 1))
            ]
            grad_gamma = torch.cat([gamma.new_zeros(1, gamma.numel()), *partial]).sum(0)
        return grad_output, grad_branch, grad_gamma


op = LayerScale.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 24, generator=gen, dtype=torch.float32)
    branch = torch.randn(64, 24, generator=gen, dtype=torch.float32)
    gamma = 0.1 + 0.05 * torch.randn(24, generator=gen, dtype=torch.float32)
    return x.requires_grad_(), branch.requires_grad_(), gamma.requires_grad_()
