"""Cotangents, and inner products over several inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from backproof.probe import typical

Vector = Sequence[Tensor | None]
"""One float64 (n_i,) an input; None where it stays put or has no gradient."""

_WIDEST = 1e12  # ratio of a cotangent's largest weight to the typical one
_WIDEST_FLOAT16 = 8.0  # products with it must stay within 65504 and above 6e-5


def balanced(
    weights: Tensor, mask: Tensor, signs: Tensor, generator: Generator, *, float16: bool
) -> Tensor:
    """A cotangent that gives each output inside `mask` the same say.

    Entries are `signs` times [0.6, 1.4] times the typical weight over the output's own.

    Shapes: all (num_outputs,); float64, `mask` boolean.
    """
    middle = typical(weights[mask])
    widest = _WIDEST_FLOAT16 if float16 else _WIDEST
    share = (middle / weights.clamp(min=1e-300)).clamp_(1 / widest, widest)
    draw = torch.rand(weights.shape, generator=generator, dtype=torch.float64)
    entry = share.mul_(draw.mul_(0.8).add_(0.6)).mul_(signs)
    return entry.masked_fill_(~mask, 0.0)


def random_signs(size: int, generator: Generator) -> Tensor:
    """+1 or -1, float64 (size,)."""
    draw = torch.rand(size, generator=generator, dtype=torch.float64)
    return torch.where(draw < 0.5, -1.0, 1.0).to(torch.float64)


def inner(a: Vector, b: Vector) -> float:
    """Sum of products over all inputs."""
    return sum(
        float(x @ y)
        for x, y in zip(a, b, strict=True)
        if x is not None and y is not None
    )


def overlap(a: Vector, b: Vector) -> float:
    """Euclidean norm of the elementwise product: the size of `inner` without luck."""
    total = 0.0
    for x, y in zip(a, b, strict=True):
        if x is not None and y is not None:
            product = x * y
            total += float(product @ product)
    return math.sqrt(total)


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
            out.append(torch.nan_to_num(x - y, nan=0.0, posinf=0.0, neginf=0.0))
    return out
