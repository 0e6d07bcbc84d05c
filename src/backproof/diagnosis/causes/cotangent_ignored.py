"""Backward forgot what came from above."""

from __future__ import annotations

import torch

from backproof.diagnosis.cause import (
    Explanation,
    cause,
    cotangents_like,
    fits,
)
from backproof.diagnosis.suspect import Suspect


@cause
def cotangent_ignored(suspect: Suspect) -> Explanation | None:
    """It is the same for every cotangent."""
    first, *others = (claim[suspect.mask] for claim in suspect.claims)
    if not bool(first.any()) or any(not torch.equal(first, o) for o in others):
        return None
    truth, detail = None, ""
    cotangents = cotangents_like(suspect)
    if cotangents is not None:
        product = [u * c for u, c in zip(cotangents, suspect.claims, strict=True)]
        if fits(suspect, product):
            truth, detail = product, "times the cotangent it would be right"
    return Explanation(
        "is the same for every cotangent: the cotangent is ignored",
        "Multiply the local derivative by the cotangent that backward is given.",
        truth,
        detail,
    )
