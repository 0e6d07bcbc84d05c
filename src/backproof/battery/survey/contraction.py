"""Inner products over lists of tensors, in float64."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def contracted(
    first: Sequence[Tensor | None], second: Sequence[Tensor | None]
) -> Tensor:
    """sum Re<a, b> in float64, over the pairs of which both are there."""
    total = torch.zeros((), dtype=torch.float64)
    for a, b in zip(first, second, strict=True):
        if a is not None and b is not None:
            total = total.to(a.device) + _real_product(a, b).sum()
    return total


def magnitude(first: Sequence[Tensor | None], second: Sequence[Tensor | None]) -> float:
    """sum |a| |b|, beside which the rounding of a contraction is small."""
    total = 0.0
    for a, b in zip(first, second, strict=True):
        if a is not None and b is not None:
            total += float((_wide(a.detach()).abs() * _wide(b.detach()).abs()).sum())
    return total


def _real_product(a: Tensor, b: Tensor) -> Tensor:
    if a.is_complex() and b.is_complex():
        return (_wide(a).conj() * _wide(b)).real
    return (_wide(a).real if a.is_complex() else _wide(a)) * (
        _wide(b).real if b.is_complex() else _wide(b)
    )


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
