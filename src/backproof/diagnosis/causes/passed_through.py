"""What came from above goes on as it is."""

from __future__ import annotations

import torch

from backproof.diagnosis.cause import (
    LIBRARY,
    Explanation,
    cause,
    cotangents_like,
)
from backproof.diagnosis.library import multiple
from backproof.diagnosis.suspect import Suspect

_ROUNDING = 1e-12


@cause
def passed_through(suspect: Suspect) -> Explanation | None:
    """It is the cotangent as it came."""
    cotangents = cotangents_like(suspect)
    if cotangents is None:
        return None
    mask = suspect.mask
    if not bool(cotangents[0][mask].any()) or any(
        not torch.allclose(u[mask], c[mask], rtol=_ROUNDING, atol=0.0)
        for u, c in zip(cotangents, suspect.claims, strict=True)
    ):
        return None
    found = multiple(suspect, cotangents) if suspect.power >= LIBRARY else None
    if found is None:
        return Explanation(
            "is the cotangent as it came: the local derivative is forgotten",
            "Multiply the cotangent by forward's derivative, or declare the "
            "straight-through gradient that is meant (`EXPECT`).",
            settled=False,
        )
    label = f"1 / {found.label}" if found.divided else found.label
    return Explanation(
        f"is the cotangent as it came: the factor {label} is forgotten",
        f"Multiply the cotangent by {label}.",
        found.truth,
    )
