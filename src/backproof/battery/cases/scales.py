"""The same call with its inputs smaller or larger."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from backproof.battery.cases.variant import Variant
from backproof.probe import ANYWHERE, typical
from backproof.trial import Trial

BEYOND_EXP = "beyond exp"
"""The label of the scale at which exp leaves the range, and saturated slopes are tiny."""

_SHARE = 0.3  # of the exponents that the type has: cubes stay in range
_MOST = 64  # a scale of 2^64 is out of the way in any type
_NEAR_ONE = 8  # inputs beyond 2^8 either way are at a scale of their own


def scales(trial: Trial) -> Iterator[Variant]:
    """All inputs together at a few powers of two, in the inputs' own type.

    Tiny and huge, a share of the type's exponents away from one; and where exp leaves
    the range. float64 leaves its own range too far out to matter, so that last scale is
    tried in float32. Nothing where an input has a declared domain, or where the inputs
    are far out already.
    """
    if any(p.domain != ANYWHERE for p in trial.points):
        return
    sizes = [typical(p.values) for p in trial.points if p.values.numel()]
    if any(abs(math.log2(s)) > _NEAR_ONE for s in sizes):
        return
    dtype = min((p.dtype for p in trial.points), key=lambda d: torch.finfo(d).max)
    top = torch.finfo(dtype).max
    far = min(_MOST, round(_SHARE * math.log2(top)))
    if dtype == torch.float16:
        far = 12  # it has few exponents: 4,096 is no large number there
    for exponent in (-far, far):
        yield _scaled(trial, exponent)
    if dtype != torch.float64:
        yield _scaled(trial, _beyond_exp(top), label=BEYOND_EXP)
        return
    narrow = trial.in_float32()
    if narrow is not None:
        beyond = _beyond_exp(torch.finfo(torch.float32).max)
        yield _scaled(narrow, beyond, " in float32", label=BEYOND_EXP)


def _beyond_exp(top: float) -> int:
    """The exponent of two from which exp of an input of that size overflows."""
    return math.ceil(math.log2(math.log(top)))


def _scaled(
    trial: Trial, exponent: int, where: str = "", *, label: str = "far out"
) -> Variant:
    moved = trial.at([p.values * 2.0**exponent for p in trial.points])
    return Variant(f"inputs times 2^{exponent}{where}", moved, label=label)
