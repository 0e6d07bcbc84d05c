"""Is forward piecewise constant? Rounding, sign, argmax, one-hot, quantisation.

On a step of a few units in the last place a smooth function of its inputs' own
precision moves nearly all of its outputs that depend on them; a staircase moves hardly
any. A smooth but flat function (1000 + x) stays put too, so the claim must also be too
large to be hidden in the rounding of the outputs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backproof.battery.look import Look, Observer
from backproof.battery.trial import Refused
from backproof.battery.vectors import Vector, inner
from backproof.probe import move, real_dtype, spacing

_STILL = 0.8  # share of the outputs that a staircase leaves where they are
_PLACES = 4  # units in the last place that inputs move by


def is_staircase(observer: Observer, look: Look, only: int | None = None) -> bool:
    """Whether the outputs stand still beside x; costs 2 forward calls.

    Args:
        observer: who looks.
        look: whose lines and cotangents to use.
        only: the index of one input to move alone.
    """
    trial = observer.trial
    steps: list[Tensor | None] = []
    for k, (point, along) in enumerate(
        zip(trial.points, look.ladders[0].steps, strict=True)
    ):
        if along is None or (only is not None and k != only):
            steps.append(None)
            continue
        size = torch.nan_to_num(point.values.abs(), 0.0, 0.0, 0.0)
        unit = spacing(size, point.dtype) * _PLACES
        # A zero has the finest spacing of all; its step is the one that the look took.
        unit = torch.where(size > 0, unit, along.abs())
        steps.append(torch.where(along == 0, 0.0, unit * along.sign()))
    values = observer.base.values
    try:
        moved = [
            trial.forward(move(trial.points, steps, m)) - values for m in (1.0, -1.0)
        ]
    except Refused:
        return False
    # Of the outputs that a longer step moved; the others may not depend on x at all.
    counted = look.response.moves
    if not bool(counted.any()):
        counted = look.response.usable
    # On one side at least: x may lie at the very edge of a stair.
    still = float(((moved[0] == 0) | (moved[1] == 0))[counted].double().mean())
    if still < _STILL:
        return False
    return _claim_would_show(observer, look, steps)


def _claim_would_show(observer: Observer, look: Look, steps: Vector) -> bool:
    """Whether such a claim, were it true, would move the outputs by what they can show."""
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
