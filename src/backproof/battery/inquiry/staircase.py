"""Is forward piecewise constant? Rounding, sign, argmax, one-hot, quantisation.

On a step of a few units in the last place a smooth function moves nearly all of the
outputs that depend on its inputs; a staircase moves hardly any. Two things stand still
as well and are none: a function so flat that rounding hides its slope (1000 + x), so the
claim must be too large to be hidden; and one that computes in a coarser type or cancels,
whose stairs are as low as that type's grain, so the stairs must be higher.
"""

from __future__ import annotations

from enum import Enum

import torch
from torch import Tensor

from backproof.battery.inquiry.look import Look, Observer
from backproof.probe import move, real_dtype, spacing, typical
from backproof.trial import Refused
from backproof.trial.vectors import Vector, inner

_STILL = 0.8  # share of the outputs that a staircase leaves where they are
_PLACES = 4  # units in the last place that inputs move by
_FARTHER = 16.0  # times that, which moves a smooth output by as much more
_LOWEST_STAIR = 0.015  # of an output's size: above bfloat16's grain, below 6 bits'
_JUMPS = 0.3  # of the moving outputs: so many that rest at first, and they jump
_ROUNDINGS = 16.0  # of eps, at the inputs' size: stairs this low are rounding
_STRIDES = (2.0**-6, 2.0**-3)  # relative steps that look for a stair where none was met


class Rest(Enum):
    """Why outputs stand still beside x, if they do."""

    NONE = "they move"
    STAIRS = "forward is piecewise constant"
    LOW_STAIRS = "they move in stairs as low as a coarse type's grain"
    ROUNDING = "their moves are lost in rounding at the size of the inputs"


def is_staircase(observer: Observer, look: Look) -> bool:
    """Whether the outputs stand still beside x and jump farther on."""
    return rest(observer, look) is Rest.STAIRS


def rest(observer: Observer, look: Look) -> Rest:
    """Whether the outputs stand still beside x, and why.

    Costs 2 forward calls, 2 more where no step of the look met a stair, and 2 more where
    too many outputs move, which may be those at the very edge of a stair.
    """
    trial, values = observer.trial, observer.base.values
    steps = _last_places(observer, look)
    try:
        moved = [
            trial.forward(move(trial.points, steps, m)) - values for m in (1.0, -1.0)
        ]
        # On one side at least: x may lie at the very edge of a stair.
        rests = (moved[0] == 0) | (moved[1] == 0)
        counted = look.response.moves
        if not bool(counted.any()):
            counted = look.response.usable
        if not _mostly(rests[counted]):
            counted = look.response.usable & ~_at_an_edge(observer, steps, moved)
            if not _mostly(rests[counted]):
                return Rest.NONE
        heights = _heights(observer, look)
    except Refused:
        return Rest.NONE
    met = heights < torch.inf
    largest = max(_largest(p.values) for p in trial.points)
    rounding = _ROUNDINGS * look.precision.eps * largest
    if not bool(met.any()):
        if _claim_far_out(observer, look) <= rounding:
            return Rest.ROUNDING
    else:
        size = values.abs().clamp(min=0.1 * typical(values))
        if float((heights / size)[met].median()) < _LOWEST_STAIR:
            return Rest.LOW_STAIRS if _jumps(look) else Rest.NONE
        if float(heights[met].median()) <= rounding:
            return Rest.ROUNDING
    if not bool(look.response.moves.any()):
        steps = _longest(observer, look)  # where they stood still as well
    return Rest.STAIRS if _claim_would_show(observer, look, steps) else Rest.NONE


def _mostly(rests: Tensor) -> bool:
    """Whether nearly all outputs of some rest."""
    return rests.numel() > 0 and float(rests.double().mean()) >= _STILL


def _at_an_edge(
    observer: Observer, steps: list[Tensor | None], moved: list[Tensor]
) -> Tensor:
    """The outputs that jump on both sides, as the sign of zero does: bool (num_outputs,).

    A jump is as high for a step that is 16 times as long. Costs 2 forwards.
    """
    trial, values = observer.trial, observer.base.values
    edge = torch.ones_like(values, dtype=torch.bool)
    for m, near in zip((1.0, -1.0), moved, strict=True):
        far = trial.forward(move(trial.points, steps, _FARTHER * m)) - values
        edge &= (near != 0) & (far.abs() <= 2 * near.abs())
    return edge


def has_low_stairs(observer: Observer, look: Look) -> bool:
    """Whether outputs that no step of the look moved have stairs as low as a type's grain.

    Costs 2 forward calls.
    """
    try:
        heights = _heights(observer, look)
    except Refused:
        return False
    met, values = heights < torch.inf, observer.base.values
    size = values.abs().clamp(min=0.1 * typical(values))
    return bool(met.any()) and float((heights / size)[met].median()) < _LOWEST_STAIR


def _largest(values: Tensor) -> float:
    return (
        float(values.abs().nan_to_num_(0.0, 0.0, 0.0).max()) if values.numel() else 0.0
    )


def _last_places(observer: Observer, look: Look) -> list[Tensor | None]:
    """Steps of a few units in the last place along the look's first line."""
    steps: list[Tensor | None] = []
    for point, along in zip(
        observer.trial.points, _first_line(observer, look), strict=True
    ):
        if along is None:
            steps.append(None)
            continue
        size = point.values.abs().nan_to_num_(0.0, 0.0, 0.0)
        unit = spacing(size, point.dtype).mul_(_PLACES)
        # A zero has the finest spacing of all; its step is the one that the look took.
        unit = torch.where(size > 0, unit, along.abs())
        steps.append(unit.mul_(along.sign()))
    return steps


def _jumps(look: Look) -> bool:
    """Whether outputs that move on the longest rung rest on the shortest."""
    moves = look.response.moves
    rest = torch.ones_like(moves)
    for ladder in look.ladders:
        rest &= (ladder.moved[:2] == 0).all(0)
    share = int(torch.count_nonzero(rest & moves))
    return share > _JUMPS * int(torch.count_nonzero(moves))


def _heights(observer: Observer, look: Look) -> Tensor:
    """The lowest stair that each output met, inf where it met none: (num_outputs,)."""
    values = observer.base.values
    single = [ladder.moved for ladder in look.ladders if ladder.count == 1]
    if not any(bool(moved.any()) for moved in single):
        trial, unit = observer.trial, _far(observer, look, 1.0)
        single = [
            (trial.forward(move(trial.points, unit, m)) - values).reshape(1, -1)
            for m in _STRIDES
        ]
    met = torch.cat(single).abs_()
    return torch.where((met > 0) & (met < torch.inf), met, torch.inf).amin(0)


def _longest(observer: Observer, look: Look) -> list[Tensor | None]:
    """The look's first line with the steps of its longest rung."""
    longest = float(look.ladders[0].ratio ** 2)
    return [None if d is None else d * longest for d in _first_line(observer, look)]


def _far(observer: Observer, look: Look, stride: float) -> list[Tensor | None]:
    """The look's first line with steps of `stride` times the inputs' size."""
    factor = stride / look.response.relative_step
    return [None if d is None else d * factor for d in _first_line(observer, look)]


def _claim_far_out(observer: Observer, look: Look) -> float:
    """What the claim says that outputs move by, at the longest stride, per output."""
    stride = max(_STRIDES) / look.response.relative_step
    steps = _first_line(observer, look)
    return max(
        abs(inner(gradient, steps)) * stride / max(float(cotangent.abs().sum()), 1e-300)
        for cotangent, gradient in zip(look.cotangents, look.gradients, strict=True)
    )


def _first_line(observer: Observer, look: Look) -> list[Tensor | None]:
    return observer.lines(look.precision, look.factor)[0][0]


def _claim_would_show(observer: Observer, look: Look, steps: Vector) -> bool:
    """Whether such a claim, were it true, would move the outputs by what they show."""
    trial = observer.trial
    for cotangent, gradient in zip(look.cotangents, look.gradients, strict=True):
        claim = abs(inner(gradient, steps))
        hidden = 0.0
        for output in trial.outputs:
            part = observer.base.values[output.part].abs()
            grain = spacing(part, real_dtype(output.dtype)) / 2
            hidden += float(cotangent[output.part].abs() @ grain)
        if claim > hidden:
            return True
    claims = [g for gs in look.gradients for g in gs if g is not None]
    return not any(bool(g.any()) for g in claims)
