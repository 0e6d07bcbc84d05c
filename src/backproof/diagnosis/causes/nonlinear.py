"""More than a product with what came from above."""

from __future__ import annotations

import torch

from backproof.diagnosis.cause import Explanation, cause
from backproof.diagnosis.suspect import Suspect

_LEAST = 1e-3  # of the gradient: a departure from a straight line that is no rounding


@cause
def nonlinear(suspect: Suspect) -> Explanation | None:
    """It is no linear function of the cotangent, nor one beside a constant."""
    u = suspect.cotangents[-1]
    found = suspect.tried([2 * u, torch.zeros_like(u)])
    if found is None:
        return None
    doubled, nothing = found
    bend = doubled - 2 * suspect.claims[-1] + nothing
    size = float(suspect.claims[-1].norm())
    if not float(bend.norm()) > _LEAST * size:
        return None
    return Explanation(
        "is not linear in its cotangent",
        "Multiply by the cotangent once in every term; clip or scale gradients in a hook.",
    )
