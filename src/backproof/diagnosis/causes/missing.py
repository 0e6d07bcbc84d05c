"""Nothing was returned."""

from __future__ import annotations

from backproof.diagnosis.cause import Explanation, cause
from backproof.diagnosis.suspect import Suspect


@cause
def missing(suspect: Suspect) -> Explanation | None:
    """It is zero or None."""
    if any(bool(claim[suspect.mask].any()) for claim in suspect.claims):
        return None
    if suspect.none:
        return Explanation(
            "is None, and forward depends on it",
            f"Return the gradient of `{suspect.name}` at its position, or mark the "
            "output non-differentiable if none is meant.",
        )
    partly = not bool(suspect.mask.all())
    return Explanation(
        "is zero, and forward's derivative is not",
        "See that backward reaches these elements: a mask, the bounds of a loop or of a "
        "grid, or a break on the way."
        if partly
        else f"Compute the gradient of `{suspect.name}`: zeros are returned, or its graph "
        "was cut (`.detach()`, `.data`, `no_grad`, NumPy).",
    )
