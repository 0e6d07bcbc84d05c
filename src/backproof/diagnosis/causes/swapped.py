"""Two gradients that change places."""

from __future__ import annotations

from backproof.diagnosis.cause import Explanation, cause, fits
from backproof.diagnosis.suspect import Suspect


@cause
def swapped(suspect: Suspect) -> Explanation | None:
    """It is the gradient of another input."""
    for name, index, claims in suspect.other_claims():
        other = suspect.trial.inputs[index]
        if claims[0].numel() != suspect.claims[0].numel():
            continue
        if other.original.is_complex() != suspect.is_complex or not fits(
            suspect, claims
        ):
            continue
        return Explanation(
            f"is in the place of `{name}`'s: backward returns them in another order "
            "than forward takes its inputs",
            f"Exchange the gradients of `{suspect.name}` and `{name}` in backward's "
            "return.",
            claims,
        )
    return None
