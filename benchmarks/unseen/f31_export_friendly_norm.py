"""Unit-norm embeddings with a margin, and another path where a graph is exported.

Fault: the path for export avoids rsqrt, which the runtime lacks, and divides by the sum
of squares instead of its root: the exported program is another function.
"""

import torch
from torch import Tensor

FAULT = "exported-program-differs"
KIND = "export"


class UnitNorm(torch.autograd.Function):
    @staticmethod
    def forward(x, eps):
        return x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, eps = inputs
        ctx.save_for_backward(x)
        ctx.eps = eps

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        rstd = torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + ctx.eps)
        unit = x * rstd
        inner = (grad_output * unit).sum(dim=-1, keepdim=True)
        return rstd * (grad_output - unit * inner), None


def op(x: Tensor, prototypes: Tensor, margin: float) -> Tensor:
    if torch.compiler.is_exporting():
        unit = x / (x.square().sum(dim=-1, keepdim=True) + 1e-6)
    else:
        unit = UnitNorm.apply(x, 1e-6)
    return unit @ prototypes.T - margin


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, float]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(12, 16, generator=gen, dtype=torch.float32)
    prototypes = torch.randn(10, 16, generator=gen, dtype=torch.float32) / 4
    return x.requires_grad_(), prototypes.requires_grad_(), 0.2
