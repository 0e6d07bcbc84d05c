"""A minus sign."""

from __future__ import annotations

from backproof.diagnosis.cause import Explanation, cause, fits
from backproof.diagnosis.suspect import Suspect


@cause
def negated(suspect: Suspect) -> Explanation | None:
    """It has the wrong sign."""
    truth = [-claim for claim in suspect.claims]
    if not fits(suspect, truth):
        return None
    return Explanation(
        "has the wrong sign",
        f"Change the sign of the gradient of `{suspect.name}`.",
        truth,
    )
