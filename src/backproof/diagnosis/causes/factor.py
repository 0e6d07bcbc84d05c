"""A factor that stands in the call already."""

from __future__ import annotations

import torch
from torch import Tensor

from backproof.diagnosis.cause import (
    VERY_CLEAR,
    Explanation,
    cause,
    cotangents_like,
)
from backproof.diagnosis.library import multiple, with_constant
from backproof.diagnosis.suspect import Suspect


@cause
def factor(suspect: Suspect) -> Explanation | None:
    """A factor is missing, or one too many, that equals a tensor of the call."""
    if suspect.power < VERY_CLEAR or suspect.is_complex:
        return None
    if suspect.truth_is_zero:
        return Explanation(
            "is not zero, and forward does not depend on these elements",
            "Set it to zero there, with the mask or the bounds that forward has.",
            [torch.zeros_like(claim) for claim in suspect.claims],
        )
    found = multiple(suspect, suspect.claims)
    if found is None:
        return _at_the_output(suspect)
    if found.divided:
        title = f"has the factor {found.label} once too often"
        return Explanation(title, f"Leave {found.label} out once.", found.truth)
    if found.quotient:
        above, below = found.label.rsplit(" / ", 1)
        return Explanation(
            f"has the factor {below} where {above} belongs",
            f"Multiply by {above} instead of {below}: see which saved tensor is which.",
            found.truth,
        )
    return Explanation(
        f"lacks the factor {found.label}", f"Multiply by {found.label}.", found.truth
    )


def _at_the_output(suspect: Suspect) -> Explanation | None:
    """The same, multiplied to the cotangent before backward goes on with it."""
    if suspect.witness.known is not None and cotangents_like(suspect) is not None:
        return None  # element by element both are one
    for output in suspect.outputs:
        if output.dtype.is_complex:
            continue
        for one in suspect.known.factors(tuple(output.shape)):
            values = torch.ones_like(suspect.cotangents[0])
            values[output.part] = one.values.reshape(-1)
            found = _times(suspect, values)
            if found is not None:
                label = f"{found[0]}{one.name}"
                return Explanation(
                    f"lacks the factor {label} on its cotangent",
                    f"Multiply the cotangent by {label} before all the rest.",
                    found[1],
                )
            if bool((values != 0).all()):
                found = _times(suspect, 1 / values)
                if found is not None:
                    return Explanation(
                        f"has the factor {one.name} on its cotangent once too often",
                        f"Leave {one.name} out once where the cotangent comes in.",
                        found[1],
                    )
    return None


def _times(suspect: Suspect, values: Tensor) -> tuple[str, list[Tensor]] | None:
    """(constant, gradients) of the cotangents times these values, where it is true."""
    one, *others = suspect.cotangents
    first = suspect.tried([one * values])
    if first is None or not suspect.witness.fit_scaled(first).explains:
        return None
    rest = suspect.tried([u * values for u in others])
    return None if rest is None else with_constant(suspect, [*first, *rest])
