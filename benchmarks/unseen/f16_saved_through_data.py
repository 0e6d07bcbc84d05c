"""A gated residual, x + g · tanh(x W), whose branch saves its inputs "without a graph".

Fault: the inputs are saved through `.data`, which has a version counter of its own. An
in-place update between forward and backward is not noticed, and backward computes with
the new values instead of raising.
"""

import torch
from torch import Tensor

FAULT = "saved-data-escapes-version-check"
KIND = "stale save"


class GatedResidual(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, gate):
        hidden = torch.tanh(x @ weight)
        ctx.save_for_backward(x.data, weight.data, gate.data, hidden)
        return x + gate * hidden

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, weight, gate, hidden = ctx.saved_tensors
        grad_gate = (grad_output * hidden).sum(dim=0)
        grad_pre = grad_output * gate * (1 - hidden * hidden)
        grad_weight = x.T @ grad_pre
        grad_x = grad_output + grad_pre @ weight.T
        return grad_x, grad_weight, grad_gate


op = GatedResidual.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 12, generator=gen, dtype=torch.float64)
    weight = torch.randn(12, 12, generator=gen, dtype=torch.float64) / 4
    gate = torch.rand(12, generator=gen, dtype=torch.float64)
    return x.requires_grad_(), weight.requires_grad_(), gate.requires_grad_()
