"""Outputs that sit on a kink: relu at zero, a maximum with ties, an absolute value.

They are left out of the ordinary comparison, and get two of their own. Along a *level*
line, on which equal inputs move alike, ties stay ties and a maximum is as smooth as
anywhere, so claim and truth can be compared as usual. Outputs that kink there too have
two one-sided derivatives, and a claim has to lie between them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.battery.inquiry.beside import beside, verdict_beside
from backproof.battery.inquiry.look import Comparison, Look, Observer, OutsideDomain
from backproof.battery.inquiry.split import bends
from backproof.probe import Ladder, Precision, direction, signs, stream, typical
from backproof.probe.ladder import forms
from backproof.trial import Refused
from backproof.trial.vectors import along, balanced, inner

_BESIDE = 6  # points beside x whose claims show what a limit can be
_SLACK = 1.2  # on the gap between the one-sided derivatives, as for smooth outputs


@dataclass(frozen=True)
class KinkView:
    """What the outputs at kinks showed.

    Attributes:
        comparisons: along the level line, then between the one-sided derivatives.
        num_outputs: how many outputs sit on a kink.
        num_elsewhere: how many others there are.
        rejects: a claim is wrong along the level line, or outside of the two sides.
        decides: a level comparison was fine enough for a pass.
        words: where the claim lies.
    """

    comparisons: list[Comparison]
    num_outputs: int
    num_elsewhere: int
    rejects: bool
    decides: bool
    words: str


def kinked_outputs(look: Look) -> Tensor:
    """Outputs whose two sides have slopes of their own; a jump has none."""
    response = look.response
    return response.kinked & response.usable & ~response.rough


def at_kinks(observer: Observer, look: Look) -> KinkView:
    """Costs 6 forwards and up to 2 backwards; about twice that where it rejects."""
    kinked = kinked_outputs(look)
    level, smooth = _along_level(observer, look, kinked, look.factor)
    rejects, words = False, ""
    if level is not None and level.rejects:
        p = look.precision
        again, _ = _along_level(observer, look, kinked, look.factor * p.shorter)
        same = again is not None and _same(level, again)
        rejects = same and not _is_limit(observer, look, smooth)
        words = "ties moved together still show another derivative than backward claims"
    comparisons = [level] if level is not None else []
    both_sides = kinked & ~smooth
    if bool(both_sides.any()):
        side, outside = _between_sides(observer, look, look.ladders[0], both_sides)
        comparisons.append(side)
        if outside and _confirmed(observer, look, side, both_sides):
            rejects = True
            words = "the claim lies outside of the one-sided derivatives"
        elif not words:
            words = "the claim lies between the one-sided derivatives"
    return KinkView(
        comparisons,
        num_outputs=int(kinked.sum()),
        num_elsewhere=int((look.response.usable & ~kinked).sum()),
        rejects=rejects,
        decides=level is not None and level.resolution <= look.precision.resolution,
        words=words or "equal inputs moved together agree with backward",
    )


def _level_steps(
    observer: Observer, precision: Precision, factor: float
) -> list[Tensor | None]:
    pairs = zip(observer.trial.points, observer.base.frozen, strict=True)
    return [
        direction(point, precision, stream(0), factor=factor, frozen=frozen, level=True)
        for point, frozen in pairs
    ]


def _is_limit(observer: Observer, look: Look, outputs: Tensor) -> bool:
    """Whether the claim is among those that a right backward makes beside x.

    A kink's gradients are the limits of those around it: one of tied maxima, some
    eigenvector of an eigenspace. A claim far outside of their range is none of them.
    """
    there = verdict_beside(
        observer.trial, observer.base, observer.seed, move_zeros=True, flip=1.0
    )
    if there == "wrong":
        return False
    cotangent = _cotangent(observer, look, outputs)
    steps = _level_steps(observer, look.precision, look.factor)
    claim, size = along(observer.gradient(cotangent), steps)
    around = []
    for number in range(_BESIDE):
        points = beside(
            observer.trial.points,
            observer.base.frozen,
            stream(observer.seed, 910, number // 2),
            flip=1.0 if number % 2 else -1.0,
            move_zeros=True,
        )
        try:
            graph = observer.trial.record(points)
        except Refused:
            continue
        around.append(inner(observer.trial.pull(graph, cotangent), steps))
    if not around:
        return True
    low, high = min(around), max(around)
    slack = 10 * (high - low) + 0.1 * max(abs(low), abs(high), size)
    return low - slack <= claim <= high + slack


def _along_level(
    observer: Observer, look: Look, kinked: Tensor, factor: float
) -> tuple[Comparison | None, Tensor]:
    """The comparison on the level line, and which kinked outputs are smooth on it."""
    p, nothing = look.precision, torch.zeros_like(kinked)
    steps = _level_steps(observer, p, factor)
    try:
        ladders = observer.climb([[steps]], p)
        response = observer.respond(ladders, p, factor)
    except (Refused, OutsideDomain):
        return None, nothing
    smooth = kinked & response.usable & ~response.rough & ~response.kinked
    if not bool(smooth.any()):
        return None, nothing
    cotangent = _cotangent(observer, look, smooth)
    gradient = observer.gradient(cotangent)
    return (
        observer.compare(ladders, response, [cotangent], [gradient], at_kinks=True)[0],
        smooth,
    )


def _between_sides(
    observer: Observer, look: Look, ladder: Ladder, outputs: Tensor
) -> tuple[Comparison, bool]:
    """The comparison along the gradient's signs, and whether the claim is outside."""
    # Each output moves its own way along the line: with the signs of those moves all
    # excesses of the claim add up, and cannot cancel.
    way = forms(ladder.ratio).third.weights @ ladder.moved
    cotangent = _cotangent(observer, look, outputs, way)
    gradient = observer.gradient(cotangent)
    side = observer.compare(
        [ladder], look.response, [cotangent], [gradient], at_kinks=True
    )[0]
    half_gap = (forms(ladder.ratio).kink.weights @ ladder.moved).abs()
    gap = float(half_gap @ cotangent.abs())
    return side, abs(side.error) > side.bar + _SLACK * gap


def _confirmed(
    observer: Observer, look: Look, side: Comparison, outputs: Tensor
) -> bool:
    """Outside at a shorter step as well, and no tie that has no gradient to compare."""
    p = look.precision
    factor = look.factor * p.shorter
    try:
        (ladder,) = observer.climb([observer.lines(p, factor)[0]], p)
        response = observer.respond([ladder], p, factor)
    except (Refused, OutsideDomain):
        return False
    still = outputs & response.usable & ~response.rough
    if not torch.equal(still, outputs):
        return False
    shorter = dataclasses.replace(look, factor=factor, response=response)
    again, outside = _between_sides(observer, shorter, ladder, outputs)
    same = outside and _same(side, again)
    return same and bends(observer, look, abs(side.error), outputs) is None


def _cotangent(
    observer: Observer, look: Look, outputs: Tensor, way: Tensor | None = None
) -> Tensor:
    """A cotangent on `outputs` alone, with the signs of `way` where it has any."""
    base, generator = observer.base, stream(observer.seed, 700)
    drawn = signs(generator, outputs.numel())
    if way is not None:
        drawn = torch.where(way != 0, way.sign(), drawn)
    weights = base.values.abs().clamp(min=1e-3 * typical(base.values))
    chosen = balanced(weights, outputs, drawn, generator, widest=base.widest)
    return observer.trial.represent(chosen * base.shift)


def _same(a: Comparison, b: Comparison) -> bool:
    ratio = (
        (a.error / a.relative_step) / (b.error / b.relative_step) if b.error else 0.0
    )
    return b.rejects and 1 / 3 <= ratio <= 3
