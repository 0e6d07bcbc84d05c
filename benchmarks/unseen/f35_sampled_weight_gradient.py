"""A linear layer that saves memory by a randomised product for its weights' gradient.

Fault: which rows are sampled is drawn anew in each backward, undeclared. The gradient is
right in expectation and differs from one call to the next on the same graph.
"""

import torch
from torch import Tensor

FAULT = "gradient-sampled-at-random"
KIND = "determinism"


class SampledLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, keep):
        ctx.save_for_backward(x, weight)
        ctx.keep = keep
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        rows = x.shape[0]
        kept = max(1, round(rows * ctx.keep))
        grad_x = grad_output @ weight
        grad_bias = grad_output.sum(dim=0)
        chosen = torch.randperm(rows, device=x.device)[:kept]
        grad_weight = grad_output[chosen].t() @ x[chosen] * (rows / kept)
        return grad_x, grad_weight, grad_bias, None


op = SampledLinear.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, float]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(128, 20, generator=gen, dtype=torch.float32)
    weight = torch.randn(12, 20, generator=gen, dtype=torch.float32) / 4
    bias = torch.zeros(12)
    return x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), 0.5
