"""Right but for the last digits."""

from __future__ import annotations

import math

import torch

from backproof.diagnosis.cause import Explanation, cause
from backproof.diagnosis.suspect import Suspect
from backproof.probe import PRECISIONS

_LARGEST = 2e-2  # of the gradient: more is no loss of digits
_COARSEST = 1e-5  # eps of types in which that could be any fault


@cause
def precision(suspect: Suspect) -> Explanation | None:
    """It loses digits."""
    if suspect.response.precision.eps > _COARSEST:
        return None
    witness = suspect.witness
    gap = (witness.truth - witness.forms(suspect.claims)).abs()
    size = witness.sizes(suspect.claims)
    if not bool(size.any()):
        return None
    relative = float(gap.norm() / size.norm())
    if witness.known is None:  # few equations, in which errors may cancel
        relative = float((gap / size.clamp(min=1e-300)).max())
    if not 0 < relative <= _LARGEST:
        return None
    digits = max(0, math.floor(-math.log10(relative)))
    kind = _grid(suspect)
    if kind is not None:
        return Explanation(
            f"has the digits of {kind} only: backward computes in that type",
            f"Keep backward's own computation in the inputs' type: no cast to {kind}.",
        )
    fit = witness.fit_scaled(suspect.claims)
    several = int(torch.count_nonzero(suspect.mask)) > 1
    if several and fit.explains and fit.scale_bar < abs(fit.scale - 1):
        return Explanation(
            f"is {1 / fit.scale:.8g} times forward's derivative: a constant was rounded",
            "Write the constant out with all of its digits (`math.pi`, `math.sqrt(2)`), "
            "and the same one as in forward.",
            [fit.scale * claim for claim in suspect.claims],
        )
    return Explanation(
        f"agrees with forward's derivative to {digits} digit{'s' * (digits != 1)} only, "
        f"off by {relative:.1g} of its size",
        "Look for a rounded constant, a cast to a coarser type, a difference of large "
        "numbers, or an epsilon that forward does not have.",
    )


def _grid(suspect: Suspect) -> str | None:
    """The coarser type whose numbers all of the gradient consists of."""
    own = PRECISIONS[suspect.input.point.dtype].eps
    claims = torch.cat([claim[suspect.mask] for claim in suspect.claims])
    for dtype, settings in reversed(PRECISIONS.items()):
        if settings.eps > own and torch.equal(claims.to(dtype).double(), claims):
            return str(dtype).removeprefix("torch.")
    return None
