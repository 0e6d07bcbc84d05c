"""What eager mode says, and how far another way of computing it may be off.

A context may fuse and reorder: that changes roundings, not numbers. The bar is

    bar = k eps s + 8 m

with eps of the tensor's type, s the largest magnitude of the tensor, and m the largest
change of any of its elements when the inputs move by an ulp and when eager mode runs
again: whatever cancels inside shows there. k = 64 (1 + log2 n) for float64 and float32,
n being the largest number of elements of any tensor of the call; in 16 bits, where sums
are kept in float32, k = 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from backproof.diagnosis.relation import relation_of
from backproof.probe import PRECISIONS, real_dtype

MOVEMENTS = 8.0  # of the change at neighbouring inputs: roundings that add up
_COARSE = 1e-4  # an eps above this is one of 16 bits


@dataclass(frozen=True)
class Known:
    """An eager answer.

    Attributes:
        value: None where there is none, as for an input that is not used.
        dtype: the coarsest type of the call, whose rounding is expected.
        size: the largest number of elements of any tensor of the call.
        movement: how much any element changes by rounding alone; measured when asked.
        scale: of the terms that were added up, where it is not the value's own.
        bar: the bar itself, where it is not one of rounding.
    """

    value: Tensor | None
    dtype: torch.dtype
    size: int
    movement: Callable[[], float]
    scale: float | None = None
    bar: float | None = None


@dataclass(frozen=True)
class Difference:
    """How far a tensor is from what is known, and the bar; `words` where it is too far."""

    error: float
    bar: float
    scale: float
    words: str


def difference(got: object, known: Known) -> Difference:
    """Compare; the words are empty where the two agree."""
    expected = known.value
    if expected is None:
        if got is None or not isinstance(got, Tensor) or not bool(got.any()):
            return Difference(0.0, 0.0, 0.0, "")
        return Difference(math.inf, 0.0, 0.0, "is there, and eager mode has none")
    if not isinstance(got, Tensor):
        if not bool(expected.any()):
            return Difference(0.0, 0.0, 0.0, "")
        return Difference(math.inf, 0.0, _top(expected), "is missing, without an error")
    if got.shape != expected.shape:
        words = f"has shape {tuple(got.shape)} instead of {tuple(expected.shape)}"
        return Difference(math.inf, 0.0, 0.0, words)
    if got.dtype != expected.dtype:
        words = f"is {got.dtype} instead of {expected.dtype}"
        return Difference(math.inf, 0.0, 0.0, words)
    return _numbers(got, expected, known)


def _numbers(got: Tensor, expected: Tensor, known: Known) -> Difference:
    mine, right = _wide(got), _wide(expected)
    if not mine.numel():
        return Difference(0.0, 0.0, 0.0, "")
    same = (mine == right) | (mine.isnan() & right.isnan())
    off = torch.where(same, 0.0, (mine - right).abs())
    error = float(off.nan_to_num(math.inf, math.inf).max())
    if error == 0:
        return Difference(0.0, 0.0, 0.0, "")
    scale = _top(right) if known.scale is None else max(known.scale, _top(right))
    bar = known.bar
    if bar is None:
        bar = rounding(known.dtype, known.size) * scale
        if error > bar:
            bar += MOVEMENTS * known.movement()
    if error <= bar:
        return Difference(error, bar, scale, "")
    return Difference(error, bar, scale, _said(mine, right, error, bar, scale))


def _said(mine: Tensor, right: Tensor, error: float, bar: float, scale: float) -> str:
    """What it is beside eager mode's."""
    if not bool(mine.any()):
        return f"is all zero; eager mode has {scale:.3g}"
    if not bool(torch.isfinite(mine).all()):
        return f"holds nan or inf; eager mode's largest is {scale:.3g}"
    found = "" if mine.is_complex() else relation_of(mine.flatten(), right.flatten())
    relation = f"is {found}: " if found else "is "
    return f"{relation}off by {error:.3g} of {scale:.3g}, where rounding explains {bar:.2g}"


def stacked(known: Sequence[Known]) -> Known:
    """Several answers as one, along a new first dimension."""
    values = [k.value for k in known if k.value is not None]
    return replace(
        known[0],
        value=torch.stack(values) if len(values) == len(known) else None,
        movement=lambda: max(k.movement() for k in known),
        scale=max((k.scale for k in known if k.scale is not None), default=None),
        bar=max((k.bar for k in known if k.bar is not None), default=None),
    )


def rounding(dtype: torch.dtype, size: int) -> float:
    """The relative rounding that another order of operations explains."""
    real = real_dtype(dtype)
    eps = PRECISIONS[real].eps if real in PRECISIONS else torch.finfo(real).eps
    if eps > _COARSE:
        return 4.0 * eps
    return 64.0 * eps * (1.0 + math.log2(max(1, size)))


def largest_change(old: Tensor | None, new: Tensor | None) -> float:
    """The largest difference of any element of two tensors of one shape."""
    if old is None or new is None or old.shape != new.shape or not old.numel():
        return 0.0
    change = (_wide(new) - _wide(old)).abs()
    return float(change.nan_to_num(0.0, 0.0, 0.0).max())


def _wide(tensor: Tensor) -> Tensor:
    t = tensor.detach()
    if t.layout is not torch.strided:
        t = t.to_dense()
    wide = torch.complex128 if t.is_complex() else torch.float64
    return t.to("cpu", wide)


def _top(tensor: Tensor) -> float:
    finite = _wide(tensor).abs().nan_to_num(0.0, 0.0, 0.0)
    return float(finite.max()) if finite.numel() else 0.0
