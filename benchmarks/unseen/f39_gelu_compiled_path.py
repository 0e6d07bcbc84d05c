"""GELU of a gated unit, with a path of its own for the compiler.

Fault: while compiling, the tanh approximation replaces the exact function: compiled and
eager runs differ in the fourth digit.
"""

import math

import torch
from torch import Tensor

FAULT = "compiled-path-approximates"
KIND = "compile"


def exact(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def approximate(x):
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + torch.tanh(inner))


class GatedGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gate):
        ctx.save_for_backward(x, gate)
        return exact(gate) * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, gate = ctx.saved_tensors
        bell = torch.exp(-0.5 * gate * gate) / math.sqrt(2 * math.pi)
        slope = 0.5 * (1 + torch.erf(gate / math.sqrt(2))) + gate * bell
        return grad_output * exact(gate), grad_output * x * slope


def op(x: Tensor, gate: Tensor) -> Tensor:
    if torch.compiler.is_compiling():
        return approximate(gate) * x  # "fuses better than the Function"
    return GatedGelu.apply(x, gate)


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 40, generator=gen, dtype=torch.float32)
    gate = torch.randn(8, 40, generator=gen, dtype=torch.float32)
    return x.requires_grad_(), gate.requires_grad_()
