"""A number with an error bar in the same unit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """`value` ± `error`: the true value lies within the bar, as far as was seen.

    `noise` and `truncation` are the two parts of `error`: what rounding explains, and
    what the finite step explains.
    """

    value: float
    error: float
    noise: float = 0.0
    truncation: float = 0.0

    def agrees_with(self, other: Estimate) -> bool:
        """Whether the two bars touch; False where either is not finite."""
        return abs(self.value - other.value) <= self.error + other.error

    def __str__(self) -> str:
        return f"{self.value:.6g} ± {self.error:.1g}"
