"""The plain relation of two gradients of one form that should be equal."""

from __future__ import annotations

import math
import re

import torch
from torch import Tensor

_SAME = 1e-6  # of the largest element: two that differ by less are equal
_LARGEST = 1000  # a whole number, or one over it, that a factor is named by


def relation_of(got: Tensor, expected: Tensor) -> str:
    """What `got` is beside `expected`, to follow "it is"; empty where nothing is plain.

    Shapes: float64 (n,) both, elements that differ.
    """
    if not got.numel() or got.shape != expected.shape:
        return ""
    if bool(got.isnan().all()):
        return "nan"
    if not bool(torch.isfinite(got).all()):
        return "nan or inf" if bool(got.isnan().any()) else "infinite"
    if not bool(torch.isfinite(expected).all()):
        return ""
    size = float(expected.abs().max())
    if not bool(got.any()):
        return "zero"
    if not size:
        return "not zero"
    factor = _factor(got, expected)
    if factor is not None:
        return _named(factor)
    slack = _SAME * max(size, float(got.abs().max()))
    ordered = (got.sort().values - expected.sort().values).abs()
    if got.numel() > 2 and bool((ordered <= slack).all()):
        return "in another order"
    return ""


def _factor(got: Tensor, expected: Tensor) -> float | None:
    """The constant that `expected` is multiplied by, None where there is none."""
    if got.numel() < 2:
        return None
    square = float(expected @ expected)
    if not 0 < square < math.inf:
        return None
    factor = float(got @ expected) / square
    gap = float((got - factor * expected).abs().max())
    near = gap <= _SAME * max(float(got.abs().max()), abs(factor) * _size(expected))
    return factor if near and factor else None


def _size(x: Tensor) -> float:
    return float(x.abs().max())


def _named(factor: float) -> str:
    if abs(factor + 1) <= _SAME:
        return "of the opposite sign"
    return f"{number(factor)} times as large"


def is_plain(named: str) -> bool:
    """Whether a number that `number` has named is whole, or one over a whole one."""
    return re.fullmatch(r"-?(1/)?\d+", named) is not None


def number(factor: float) -> str:
    """A factor as a whole number, or one over it, where it is one."""
    if not factor:
        return "0"
    size, sign = abs(factor), "-" if factor < 0 else ""
    for value, form in ((size, "{}"), (1 / size, "1/{}")):
        whole = round(value)
        if 0 < whole <= _LARGEST and abs(value - whole) <= _SAME * whole:
            return sign + form.format(whole)
    return f"{factor:.3g}"
