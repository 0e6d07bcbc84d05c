"""A constant too many or too few."""

from __future__ import annotations

import math

from backproof.diagnosis.cause import (
    PLAIN,
    Explanation,
    cause,
    named_constant,
)
from backproof.diagnosis.suspect import Suspect

CLOSE = 5e-3  # a constant this near to 1 that has no name is a rounded one


@cause
def scaled(suspect: Suspect) -> Explanation | None:
    """It is a constant times forward's derivative."""
    fit = suspect.witness.fit_scaled(suspect.claims)
    if not fit.explains or suspect.power < 2 * PLAIN or not fit.scale:
        return None
    factor, bar = 1 / fit.scale, fit.scale_bar / fit.scale**2
    if not math.isfinite(factor) or abs(fit.scale) < 3 * fit.scale_bar:
        return None
    number = named_constant(suspect, factor, bar)
    if number is None and abs(abs(factor) - 1) < CLOSE:
        return None
    size = number.words if number is not None else unnamed_factor(factor, bar)
    sign = "minus " if factor < 0 else ""
    truth = [fit.scale * claim for claim in suspect.claims]
    inverse = number is not None and number.value < 1
    where = "lost" if inverse else "kept twice"
    if number is None:
        where = "lost, or kept twice"
    return Explanation(
        f"is {sign}{size} times forward's derivative",
        f"Look for a factor that was {where} in the derivation, such as the one of a "
        "mean, a scale, or a square.",
        truth,
        "the same ratio in every direction tried",
    )


def unnamed_factor(value: float, bar: float) -> str:
    """A constant without a name, to the digits that its bar leaves."""
    digits = 6 if bar < 1e-6 * abs(value) else 3
    return f"{abs(value):.{digits}g}"
