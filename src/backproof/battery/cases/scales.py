"""The same call with its inputs far smaller or far larger."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from backproof.battery.cases.variant import Variant
from backproof.battery.trial import Trial
from backproof.probe import ANYWHERE, typical

_SHARE = 0.3  # of the exponents that the type has: cubes stay in range
_SHARE_FLOAT16 = 0.55  # it has few: 300 is no large number there


def scales(trial: Trial) -> Iterator[Variant]:
    """All inputs together at about 2^-e and 2^e, e a share of the type's exponents.

    Nothing where an input has a declared domain, or where the inputs are that far out
    already.
    """
    if any(p.domain != ANYWHERE for p in trial.points):
        return
    dtype = min((p.dtype for p in trial.points), key=lambda d: torch.finfo(d).max)
    share = _SHARE_FLOAT16 if dtype == torch.float16 else _SHARE
    exponent = round(share * math.log2(torch.finfo(dtype).max))
    sizes = [typical(p.values) for p in trial.points if p.values.numel()]
    for sign, words in ((-1, "tiny"), (1, "huge")):
        target = 2.0 ** (sign * exponent)
        if any(not 2.0**-8 < s < 2.0**8 for s in sizes):
            continue
        moved = trial.at([p.values * target for p in trial.points])
        yield Variant(f"inputs times 2^{sign * exponent}", moved, label=words)
