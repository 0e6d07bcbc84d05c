"""Is the derivative linear in the direction?

At ties a sort or a median has no kink along any one line, and still no gradient: the
middle one of three equal numbers moves by the middle one of three steps. Splitting a
line into two random halves of its elements shows it: O(a + b) = O(a) + O(b) for a
function with a gradient. Halves are disjoint, so every point stays exact.
"""

from __future__ import annotations

import torch
from torch import Tensor

from backproof.battery.inquiry.look import Look, Observer
from backproof.probe import move, signed, stream
from backproof.trial import Refused

_TRIES = 6
_EXPLAINS = 0.05  # a gap of this share of the error could be its cause


def bends(
    observer: Observer, look: Look, error: float, outputs: Tensor
) -> float | None:
    """The first gap, per smallest step, that could explain `error`; None if there is none.

    Costs 4 forward calls a try, up to 6 tries.

    Args:
        observer: who looks.
        look: whose lines and cotangents to use.
        error: of the claim, per smallest step.
        outputs: which ones count, boolean (num_outputs,).
    """
    p, noise = look.precision, look.response.noise
    generator = stream(observer.seed, 800)
    for n in range(_TRIES):
        ladder = look.ladders[n % len(look.ladders)]
        if ladder.count > 1:
            continue  # a sum of lines is not a line
        halves: list[list[Tensor | None]] = [[], []]
        for step in ladder.steps:
            if step is None:
                halves[0].append(None)
                halves[1].append(None)
                continue
            mine = signed(generator, step.numel()) < 0
            halves[0].append(torch.where(mine, step, 0.0))
            halves[1].append(torch.where(mine, 0.0, step))
        try:
            one, other = (_odd(observer, half, p.top) for half in halves)
        except Refused:
            continue
        whole = (ladder.moved[-2] - ladder.moved[-1]) / 2
        gap = torch.nan_to_num((whole - one - other).abs(), 0.0, 0.0, 0.0)
        big = torch.maximum(whole.abs(), torch.maximum(one.abs(), other.abs()))
        seen = outputs & (gap > p.rough_z * noise) & (gap > p.rough * big)
        gap = torch.where(seen, gap, 0.0)
        for cotangent in look.cotangents:
            total = float(gap @ cotangent.abs()) / p.top
            if total > _EXPLAINS * error:
                return total
    return None


def _odd(observer: Observer, steps: list[Tensor | None], m: float) -> Tensor:
    points, forward = observer.trial.points, observer.trial.forward
    plus, minus = forward(move(points, steps, m)), forward(move(points, steps, -m))
    return (plus - minus).div_(2)
