"""Inputs and outputs as flat float64 vectors of real numbers, and back.

Complex tensors are pairs of reals, under the inner product Re<a, b> that autograd uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.probe import PRECISIONS, Domain, Point, real_dtype
from backproof.trial.copies import laid_out_like


@dataclass(frozen=True)
class Input:
    """A differentiable input: `point` has its values, `original` its layout."""

    name: str
    original: Tensor
    point: Point

    def at(self, values: Tensor) -> Tensor:
        """A new tensor with these values and the original's type and layout.

        Shapes: float64 (n,) -> the original's.
        """
        old = self.original
        mine = values is self.point.values  # which nobody may write to
        fresh = values.to(self.point.dtype, copy=mine).to(old.device)
        fresh = fresh.reshape(self.point.shape)
        if old.is_complex():
            fresh = torch.view_as_complex(fresh)
        if old.is_contiguous() and old.storage_offset() == 0:
            return fresh
        return laid_out_like(old, fresh)


@dataclass(frozen=True)
class Output:
    """A differentiable output: its name, shape and type, and its part of the vector."""

    name: str
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    part: slice


def input_of(name: str, leaf: Tensor, domain: Domain) -> Input:
    """The input that a leaf of the arguments is; without values if it is refused."""
    original = leaf.detach()
    dtype = real_dtype(original.dtype)
    plain = original.layout is torch.strided and not (
        original.is_meta or original.is_quantized or original.is_nested
    )
    if dtype not in PRECISIONS or not plain:
        return Input(name, original, Point(torch.empty(0), dtype, (), domain))
    real = (
        torch.view_as_real(original.resolve_conj())
        if original.is_complex()
        else original
    )
    values = real.to("cpu", torch.float64, copy=True).contiguous()
    return Input(
        name, original, Point(values.reshape(-1), dtype, tuple(values.shape), domain)
    )


def shaped(output: Output, part: Tensor) -> Tensor:
    """A copy of `part` as backward will get it, which it may write to."""
    if output.dtype.is_complex:
        pairs = part.reshape(*output.shape, 2)
        pairs = pairs.to(output.device, real_dtype(output.dtype), copy=True)
        return torch.view_as_complex(pairs)
    return part.reshape(output.shape).to(output.device, output.dtype, copy=True)


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """All elements as one float64 vector on the CPU, sparse ones made dense."""
    parts = []
    for tensor in tensors:
        t = tensor.detach()
        if t.layout is not torch.strided:
            t = t.to_dense()
        real = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
        parts.append(real.reshape(-1).to("cpu", torch.float64))
    return parts[0] if len(parts) == 1 else torch.cat(parts)
