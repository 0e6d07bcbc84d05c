"""The last doubts before `wrong`: two ways in which a correct gradient can be rejected.

*Aliasing.* A step relative to |x| can be far longer than the function's own scale (a
sine of x - 1e8 near 1e8); every rung then sees another branch. A fault is the same error
at every shorter step, so steps that span several decades decide.

*No gradient.* Where the derivative is not linear in the direction (a sort at ties), x is
no point to compare at; two points beside it, where ties are broken evenly, decide.

In 16 bits there is no shorter step and no point close enough; the float64 stage is what
guards those types.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import torch

from backproof.battery.inquiry.beside import verdict_beside
from backproof.battery.inquiry.look import (
    Comparison,
    Look,
    OutsideDomain,
    Sight,
    would_have_seen,
)
from backproof.battery.inquiry.single_input import STAIRS
from backproof.battery.inquiry.split import bends
from backproof.probe import PRECISIONS, spacing, typical
from backproof.trial import Refused, Trial
from backproof.trial.vectors import Vector

if TYPE_CHECKING:
    from backproof.battery.inquiry.inquiry import Inquiry

_FINER = PRECISIONS[torch.float32]
_COARSE = dataclasses.replace(PRECISIONS[torch.bfloat16], repeats=1)
_BENT = 0.25  # a middle contrast above this share of the slope says nothing about it
_FEWEST_QUANTA = 4.0  # steps shorter than this many spacings of x are rounding


class Ruling(Enum):
    """What the guards say."""

    WRONG = "wrong"
    RIGHT = "right"
    KINK = "kink"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Guarded:
    """The ruling, the look that it rests on, and why."""

    kind: Ruling
    look: Look
    words: str = ""


def guard(inquiry: Inquiry, look: Look) -> Guarded:
    """Both guards in turn; `look` is one of two that reject and agree."""
    if not look.precision.decades:
        finer = _passes_in_own_type(inquiry)
        if finer is not None:
            return Guarded(Ruling.RIGHT, finer)
        return _guard_direction(inquiry, look)
    coarse = _coarse_inside(inquiry, look)
    if coarse is not None:
        return Guarded(Ruling.RIGHT, coarse)
    scale = _guard_scale(inquiry, look)
    return (
        scale
        if scale.kind is not Ruling.WRONG
        else _guard_direction(inquiry, scale.look)
    )


# ------------------------------------------------------------------------- aliasing


def _guard_scale(inquiry: Inquiry, look: Look) -> Guarded:
    """Repeat at ever shorter steps along the worst line: 6 forwards a decade.

    The shortest step that would have seen the error has the last word: where it accepts,
    longer ones have missed the function's scale, however straight it looked to them.
    """
    straight = any(
        k.sight is Sight.WRONG and k.response.jag <= _BENT for k in inquiry.looks
    )
    cleared: Look | None = None
    rejecting: Look | None = None
    for shorter, rejects in _shorter_looks(inquiry, look):
        if rejects and cleared is not None:
            words = "shorter steps disagree about whether it is right"
            return Guarded(Ruling.UNDECIDED, look if straight else shorter, words)
        if rejects:
            rejecting = rejecting or shorter
        elif not shorter.rejections:
            cleared = cleared or shorter
    if cleared is not None:
        words = f"longer steps than {cleared.response.relative_step:.1g} miss its scale"
        enough = cleared.resolution <= look.precision.resolution
        return Guarded(Ruling.RIGHT if enough else Ruling.UNDECIDED, cleared, words)
    if rejecting is not None:
        return Guarded(Ruling.WRONG, look if straight else rejecting)
    if not straight:
        words = "forward is not straight at any usable step: no derivative was measured"
        return Guarded(Ruling.UNDECIDED, look, words)
    return Guarded(Ruling.WRONG, look)


def _shorter_looks(inquiry: Inquiry, look: Look) -> Iterator[tuple[Look, bool]]:
    """Ever shorter looks that would have seen the error, and whether they reject."""
    p, observer = look.precision, inquiry.observer
    line, accused = _worst_line(look)
    for power in p.decades:
        factor = look.factor * 2.0**power
        if _quanta(observer.lines(p, factor)[line][0], inquiry.trial) < _FEWEST_QUANTA:
            return
        try:
            shorter = observer.look(p, factor, which=(line,))
        except (OutsideDomain, Refused):
            continue
        response = shorter.response
        few = 2 * int(response.moves.sum()) < int(look.response.moves.sum())
        if response.not_smooth or response.jag > _BENT or few:
            continue  # still too long, or already below the function's own grain
        sees = [
            s
            for a, s in zip(accused, shorter.comparisons, strict=True)
            if would_have_seen(s, a)
        ]
        if not sees:
            return  # noise decides from here on
        yield shorter, any(s.rejects for s in sees)


def _passes_in_own_type(inquiry: Inquiry) -> Look | None:
    """A look with short steps of the inputs' own type that passes, if one does.

    A fast function is noise to long steps, and then looks like one that computes in a
    coarser type, whose own longer steps alias too. Costs up to 12 forwards a decade, and
    none where no coarser type was assumed.
    """
    if inquiry.inside is None:
        return None
    own = inquiry.base.precision
    for power in own.decades:
        try:
            shorter = inquiry.observer.look(own, 2.0**power)
        except (OutsideDomain, Refused):
            continue
        if shorter.sight is Sight.PASS and shorter.response.jag <= _BENT:
            return shorter
    return None


def _worst_line(look: Look) -> tuple[int, list[Comparison]]:
    """The line whose error reaches farthest beyond its bars, and its comparisons."""
    width = len(look.cotangents)
    worst = max(range(len(look.comparisons)), key=lambda n: look.comparisons[n].excess)
    line = worst // width
    return line, look.comparisons[line * width : (line + 1) * width]


def _coarse_inside(inquiry: Inquiry, look: Look) -> Look | None:
    """A look over a coarse type's stairs that would have seen the error, and does not.

    A part of forward that is cast down moves in stairs; steps shorter than those see
    only the rest of it. Its lines are not quite those of `look` (small elements move
    less than their share), so both of them have to clear, and the stairs have to show.
    Costs 6 forwards, and 12 more where there are stairs.
    """
    if inquiry.inside is not None or not _has_stairs(inquiry):
        return None
    coarse = inquiry.quick_look(_COARSE)
    if coarse is None or coarse.rejections or coarse.response.not_smooth:
        return None
    pairs = zip(look.comparisons, coarse.comparisons, strict=True)
    seen = any(would_have_seen(c, a) for a, c in pairs)
    if not seen or coarse.resolution > coarse.precision.resolution:
        return None
    return inquiry.inside_of(torch.bfloat16, coarse)


def _has_stairs(inquiry: Inquiry) -> bool:
    """Whether steps long enough to cross a 16-bit type's stairs meet noise like theirs."""
    try:
        look = inquiry.observer.look(_FINER, which=(0,))
    except (OutsideDomain, Refused):
        return False
    return look.response.grain > STAIRS * _FINER.eps


def _quanta(steps: Vector, trial: Trial) -> float:
    """The middle step in spacings of x."""
    counts = []
    for step, point in zip(steps, trial.points, strict=True):
        if step is None:
            continue
        moved = step != 0
        unit = spacing(point.values[moved].abs(), point.dtype)
        counts.append(step[moved].abs() / unit)
    return typical(torch.cat(counts)) if counts else 0.0


# ---------------------------------------------------------------------- no gradient


def _guard_direction(inquiry: Inquiry, look: Look) -> Guarded:
    rejecting = look.rejections or look.comparisons
    error = min(abs(c.error) for c in rejecting)
    gap = bends(inquiry.observer, look, error, look.response.smooth)
    if gap is None:
        return Guarded(Ruling.WRONG, look)
    words = (
        "its derivative is not linear in the direction, so there is no gradient here"
    )
    if not look.precision.decades:
        return Guarded(Ruling.UNDECIDED, look, words + "; give inputs without ties")
    size = max(
        c.excess * c.relative_step / max(c.size, c.null, 1e-300) for c in rejecting
    )
    resolutions = _beside(inquiry, size)
    if resolutions == "wrong":
        return Guarded(Ruling.WRONG, look)
    if resolutions is None:
        return Guarded(Ruling.UNDECIDED, look, words + "; give inputs without ties")
    return Guarded(
        Ruling.KINK,
        look,
        f"{words}; it is right at two points beside it (resolution {resolutions:.1g})",
    )


def _beside(inquiry: Inquiry, size: float) -> float | str | None:
    """The resolution of passes at two points beside x, "wrong", or None for neither."""
    holes = any(bool((p.values == 0).any()) for p in inquiry.trial.points)
    for move_zeros in (True, False) if holes else (True,):
        passed = []
        for flip in (1.0, -1.0):
            seen = verdict_beside(
                inquiry.trial,
                inquiry.base,
                inquiry.seed,
                move_zeros=move_zeros,
                flip=flip,
            )
            if seen == "wrong":
                return seen
            if not isinstance(seen, float) or 2 * seen > size:
                break
            passed.append(seen)
        if len(passed) == 2:
            return max(passed)
    return None
