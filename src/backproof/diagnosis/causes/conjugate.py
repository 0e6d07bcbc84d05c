"""A complex conjugate, missing or too many."""

from __future__ import annotations

import torch
from torch import Tensor

from backproof.diagnosis.cause import Explanation, cause, fits
from backproof.diagnosis.suspect import Suspect


@cause
def conjugate(suspect: Suspect) -> Explanation | None:
    """A complex conjugate is missing."""
    if not suspect.is_complex:
        return None
    remedy = (
        "autograd's convention is the conjugate: multiply the cotangent by the "
        "conjugate of the local derivative (`.conj()` on what was saved)."
    )
    whole = [_conjugated(claim) for claim in suspect.claims]
    if fits(suspect, whole):
        return Explanation(
            "is the complex conjugate of what it should be", remedy, whole
        )
    if not all(output.dtype.is_complex for output in suspect.outputs):
        return _of_saved(suspect, remedy)
    turned = suspect.tried([_conjugated(u) for u in suspect.cotangents])
    if turned is None:
        return None
    if fits(suspect, turned):
        return Explanation(
            "lacks a conjugate of the cotangent, or has it without need",
            "Conjugate the cotangent in backward, as forward does with the input.",
            turned,
        )
    inner = [_conjugated(g) for g in turned]
    if fits(suspect, inner):
        return Explanation("lacks the conjugate of the local derivative", remedy, inner)
    return _of_saved(suspect, remedy)


def _of_saved(suspect: Suspect, remedy: str) -> Explanation | None:
    """One of the tensors that backward reads has to be conjugated: 1 forward each."""
    for k, one in enumerate(suspect.trial.inputs):
        if not one.original.is_complex():
            continue
        truth = suspect.claims_with(k, _conjugated(one.point.values))
        if fits(suspect, truth):
            return Explanation(f"lacks the conjugate of `{one.name}`", remedy, truth)
    return None


def _conjugated(pairs: Tensor) -> Tensor:
    """Of numbers that lie as pairs of reals, (2 n,)."""
    sign = torch.ones_like(pairs)
    sign[1::2] = -1
    return pairs * sign
