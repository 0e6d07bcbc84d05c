"""A cosine transform (DCT-II, orthonormal) with its basis cached between calls.

Healthy: it looks suspicious, because a cache of the module outlives every call and feeds
forward from outside. It holds constants only, as tuples of plain numbers, one a length,
and at most eight.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor

FAULT = None
KIND = "leak"


@lru_cache(maxsize=8)
def basis(length: int) -> tuple[tuple[float, ...], ...]:
    norm = math.sqrt(2 / length)
    return tuple(
        tuple(
            (norm if row else norm / math.sqrt(2))
            * math.cos(math.pi / length * row * (column + 0.5))
            for column in range(length)
        )
        for row in range(length)
    )


def transform(x: Tensor) -> Tensor:
    return torch.tensor(basis(x.shape[-1]), dtype=x.dtype, device=x.device)


class CosineTransform(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain):
        spectrum = x @ transform(x).t()
        ctx.save_for_backward(x, gain)
        return spectrum * gain

    @staticmethod
    def backward(ctx, grad_output):
        x, gain = ctx.saved_tensors
        matrix = transform(x)
        grad_gain = (grad_output * (x @ matrix.t())).reshape(-1, gain.numel()).sum(0)
        return (grad_output * gain) @ matrix, grad_gain


op = CosineTransform.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(4, 6, 16, generator=gen, dtype=torch.float64)
    gain = torch.rand(16, generator=gen, dtype=torch.float64) + 0.5
    return x.requires_grad_(), gain.requires_grad_()
