"""One input alone: for inputs too weak to be seen beside the others, and to name faults.

The rounding of the outputs stays what it was; what shrinks is the truncation that the
other inputs' curvature leaves, and backward's own rounding of their gradients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.battery.inquiry.look import (
    Comparison,
    Look,
    Observer,
    OutsideDomain,
    same_error,
    would_have_seen,
)
from backproof.probe import PRECISIONS, Precision, direction, stream
from backproof.trial import Refused

STAIRS = 30.0  # times float32's eps: noise of a 16-bit type inside, not of float32
_COARSE = dataclasses.replace(PRECISIONS[torch.bfloat16], repeats=1)


@dataclass(frozen=True)
class InputView:
    """What an input (or a group of them) showed alone.

    `comparison` is the one with the best resolution, or the rejecting one; `confirmed`
    says that a second step size rejects too, by the same error. `stuck` says that none of
    its elements could be moved.
    """

    comparison: Comparison
    confirmed: bool
    stuck: bool = False

    @property
    def resolved(self) -> bool:
        """Whether a fault of the size that a pass excludes would have shown.

        Where nothing is claimed and nothing moves, there is nothing to resolve.
        """
        seen = self.comparison
        if self.stuck:
            return False
        if seen.claim.value == 0 and seen.truth.value == 0:
            return True
        return seen.resolution <= seen.enough

    @property
    def rejects(self) -> bool:
        """Whether its gradient is wrong."""
        return self.confirmed


def alone(observer: Observer, look: Look, which: Sequence[int]) -> InputView | None:
    """Move only the inputs in `which`: 6 forwards, 6 more where that does not settle it.

    None where forward leaves its domain.
    """
    p = look.precision
    # It is weak beside noise, so longer steps show more of it; shorter ones if it bends.
    factor = look.factor * p.longer
    seen = _compare(observer, look, which, factor)
    if seen is None or not any(c.rejects or c.resolution <= c.enough for c in seen):
        factor = look.factor
        seen = _compare(observer, look, which, factor) or seen
    if seen is None:
        return None
    rejecting = [k for k, c in enumerate(seen) if c.rejects]
    if not rejecting:
        best = min(seen, key=lambda c: c.resolution)
        steps = [ld.steps[k] for ld in look.ladders for k in which]
        filled = any(observer.trial.points[k].values.numel() for k in which)
        stuck = filled and not any(s is not None and bool(s.any()) for s in steps)
        return InputView(best, confirmed=False, stuck=stuck)
    first = seen[rejecting[0]]
    other = look.factor if factor != look.factor else look.factor * p.shorter
    again = _compare(observer, look, which, other)
    confirmed = again is not None and any(
        same_error(seen[k], again[k]) for k in rejecting
    )
    if confirmed and p.decades:
        coarse = _compare(observer, look, which, 1.0, _COARSE)
        if coarse and _refutes(coarse, seen) and _has_stairs(observer, which):
            return InputView(min(coarse, key=lambda c: c.resolution), confirmed=False)
    return InputView(first, confirmed)


def _refutes(coarse: list[Comparison], seen: list[Comparison]) -> bool:
    """Whether the steps of a coarse type, over its stairs, clear what short ones accuse."""
    if any(c.rejects for c in coarse):
        return False
    return any(would_have_seen(c, a) for c, a in zip(coarse, seen, strict=True))


def _has_stairs(observer: Observer, which: Sequence[int]) -> bool:
    """Whether these inputs, moved over a 16-bit type's stairs, meet noise like theirs."""
    p = PRECISIONS[torch.float32]
    line = observer.lines(p, 1.0)[0][0]
    steps = [d if k in which else None for k, d in enumerate(line)]
    try:
        response = observer.respond(observer.climb([[steps]], p), p, 1.0)
    except (Refused, OutsideDomain):
        return False
    return response.grain > STAIRS * p.eps


def _compare(
    observer: Observer,
    look: Look,
    which: Sequence[int],
    factor: float,
    precision: Precision | None = None,
) -> list[Comparison] | None:
    p = precision or look.precision
    steps: list[Tensor | None] = []
    for k, point in enumerate(observer.trial.points):
        if k not in which:
            steps.append(None)
            continue
        steps.append(
            direction(
                point,
                p,
                stream(observer.seed, 600, k),
                factor=factor,
                signs_of=look.gradients[0][k],
                frozen=observer.base.frozen[k],
            )
        )
    try:
        ladders = observer.climb([[steps]], p)
        response = observer.respond(ladders, p, factor)
    except (Refused, OutsideDomain):
        return None
    smooth = response.smooth & look.response.smooth
    if not bool(smooth.any()):
        return None
    cotangents, gradients = look.cotangents, look.gradients
    if not bool(smooth.all()):
        cotangents = [torch.where(smooth, u, 0.0) for u in cotangents]
        gradients = [observer.gradient(u) for u in cotangents]
    return observer.compare(ladders, response, cotangents, gradients)
