"""A constant too many or too few."""

from __future__ import annotations

import math

import torch

from backproof.diagnosis.cause import (
    CLEAR,
    Explanation,
    cause,
    named_constants,
)
from backproof.diagnosis.known import Number
from backproof.diagnosis.suspect import Suspect

_CLOSE = 5e-3  # a constant this near to 1 that has no name is a rounded one
_COARSE, _FEW = 1e-5, 8  # types in which so few elements fit a constant by chance
_GOOD = 2  # rank of names that are worth giving beside the best


@cause
def scaled(suspect: Suspect) -> Explanation | None:
    """It is a constant times forward's derivative."""
    elements = int(torch.count_nonzero(suspect.mask))
    if suspect.response.precision.eps > _COARSE and elements < _FEW:
        return None
    fit = suspect.witness.fit_scaled(suspect.claims)
    if not fit.explains or suspect.power < 2 * CLEAR or not fit.scale:
        return None
    factor, bar = 1 / fit.scale, fit.scale_bar / fit.scale**2
    if not math.isfinite(factor) or abs(fit.scale) < 3 * fit.scale_bar:
        return None
    numbers = named_constants(suspect, factor, bar)
    if not numbers and abs(abs(factor) - 1) < _CLOSE:
        return None  # a rounded constant
    size = _named(numbers) if numbers else _unnamed(factor, bar)
    sign = "minus " if factor < 0 else ""
    return Explanation(
        f"is {sign}{size} times forward's derivative",
        f"{_undone(sign, numbers[0].name if numbers else size)}: a factor was left out "
        "or taken twice, such as that of a mean, a scale, or a square.",
        [fit.scale * claim for claim in suspect.claims],
        "the same ratio in every direction tried" if elements > 1 else "",
    )


def _undone(sign: str, name: str) -> str:
    """What to do about a factor of this name."""
    if name.startswith("1/") and name.count("/") == 1:
        return f"Multiply it by {sign}{name[2:]}"
    return f"Divide it by {sign}{name}"


def _named(numbers: list[Number]) -> str:
    """The best name, and another that is as good: constants collide."""
    best, *others = numbers
    for other in others:
        if other.rank <= _GOOD and other.name != best.name:
            gloss = f"{best.gloss}, " if best.gloss else ""
            return f"{best.name} ({gloss}or {other.name})"
    return best.words


def _unnamed(value: float, bar: float) -> str:
    """A constant without a name, to the digits that its bar leaves."""
    digits = 6 if bar < 1e-6 * abs(value) else 3
    return f"{abs(value):.{digits}g}"
