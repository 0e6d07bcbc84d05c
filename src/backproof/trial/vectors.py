"""Cotangents, and inner products over several inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from numpy.random import Generator
from torch import Tensor

from backproof.probe import blocks, signed, spread, typical

Vector = Sequence[Tensor | None]
"""One float64 (n_i,) an input; None where it stays put or has no gradient."""


def balanced(
    weights: Tensor, mask: Tensor, signs: Tensor, generator: Generator, *, widest: float
) -> Tensor:
    """A cotangent that gives each output inside `mask` the same say.

    Entries are `signs` times [0.6, 1.4] times the typical weight over the output's own,
    at most `widest` times as large as the typical one or as small.

    Shapes: all (num_outputs,); float64, `mask` boolean.
    """
    middle = typical(weights, mask)
    entries = torch.empty_like(weights)
    for part in blocks(weights.numel()):
        share = torch.reciprocal(weights[part].clamp(min=1e-300)).mul_(middle)
        share.clamp_(1 / widest, widest).mul_(signs[part])
        torch.mul(share, spread(signed(generator, share.numel())), out=entries[part])
    return entries if bool(mask.all()) else entries.masked_fill_(~mask, 0.0)


def inner(a: Vector, b: Vector) -> float:
    """Sum of products over all inputs."""
    return along(a, b)[0]


def overlap(a: Vector, b: Vector) -> float:
    """Euclidean norm of the elementwise product: the size of `inner` without luck."""
    return along(a, b)[1]


def magnitude(a: Vector, b: Vector) -> float:
    """Sum of the products' magnitudes: what the rounding of `inner` is relative to."""
    return sum(
        float((x[part] * y[part]).abs().sum())
        for x, y in zip(a, b, strict=True)
        if x is not None and y is not None
        for part in blocks(x.numel())
    )


def along(a: Vector, b: Vector) -> tuple[float, float]:
    """`inner` and `overlap` in one pass."""
    total = square = 0.0
    for x, y in zip(a, b, strict=True):
        if x is None or y is None:
            continue
        for part in blocks(x.numel()):
            product = x[part] * y[part]
            total += float(product.sum())
            square += float(product @ product)
    return total, math.sqrt(square)


def norm(a: Vector) -> float:
    """Euclidean norm over all inputs."""
    return math.sqrt(sum(float(x @ x) for x in a if x is not None))


def minus(a: Vector, b: Vector) -> list[Tensor | None]:
    """a - b, with None for zero; not finite entries of either count as no difference."""
    out: list[Tensor | None] = []
    for x, y in zip(a, b, strict=True):
        if x is None or y is None:
            out.append(x if y is None else -y)
        else:
            out.append((x - y).nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0))
    return out
