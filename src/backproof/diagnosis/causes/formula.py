"""Another function than forward's derivative, where that one is known."""

from __future__ import annotations

from backproof.diagnosis.cause import VERY_CLEAR, Explanation, cause, cotangents_like
from backproof.diagnosis.library import multiple
from backproof.diagnosis.suspect import Suspect


@cause
def formula(suspect: Suspect) -> Explanation | None:
    """It is another function of what the call knows than forward's derivative."""
    cotangents = cotangents_like(suspect)
    if cotangents is None or suspect.power < VERY_CLEAR:
        return None
    found = multiple(suspect, cotangents)
    if found is None:
        return None
    by = "over" if found.divided else "times"
    return Explanation(
        f"has another formula: forward's derivative is the cotangent {by} {found.label}",
        f"Return the cotangent {by} {found.label}.",
        found.truth,
    )
