"""What came from above goes on as it is."""

from __future__ import annotations

import torch

from backproof.diagnosis.cause import (
    VERY_CLEAR,
    Cause,
    Explanation,
    cause,
    cotangents_like,
)
from backproof.diagnosis.library import multiple
from backproof.diagnosis.suspect import Suspect
from backproof.diagnosis.witness import Gradients

_ROUNDING = 1e-12


@cause
def passed_through(suspect: Suspect) -> Explanation | None:
    """It is the cotangent as it came."""
    cotangents = cotangents_like(suspect)
    if cotangents is None or not _equal(suspect, cotangents):
        return None
    if suspect.truth_is_zero:
        return Explanation(
            "is the cotangent as it came, and should be zero",
            "Set it to zero there, with the mask or the bounds that forward has.",
            [torch.zeros_like(claim) for claim in suspect.claims],
        )
    found = multiple(suspect, cotangents) if suspect.power >= VERY_CLEAR else None
    if found is None:
        return None
    label = f"1 / {found.label}" if found.divided else found.label
    return Explanation(
        f"is the cotangent as it came: the factor {label} is forgotten",
        f"Multiply the cotangent by {label}.",
        found.truth,
    )


def _passed_on(suspect: Suspect) -> Explanation | None:
    """It is the cotangent as it came, whatever it should be."""
    cotangents = cotangents_like(suspect)
    if cotangents is None or not _equal(suspect, cotangents):
        return None
    return Explanation(
        "is the cotangent as it came: the local derivative is forgotten",
        "Multiply the cotangent by forward's derivative, or declare the "
        "straight-through gradient that is meant (`EXPECT`).",
    )


passed_on = Cause(passed_through.name, passed_through.relation, _passed_on)
"""The same, where nothing says what the derivative is; asked last."""


def _equal(suspect: Suspect, cotangents: Gradients) -> bool:
    mask = suspect.mask
    return bool(cotangents[0][mask].any()) and all(
        torch.allclose(u[mask], c[mask], rtol=_ROUNDING, atol=0.0)
        for u, c in zip(cotangents, suspect.claims, strict=True)
    )
