"""How much of a gradient is backward's own rounding.

The gradient is taken once more at inputs moved by -1, 0 or +1 unit in the last place,
for the cotangent times 1.37, and scaled back. A correct backward changes by what its
rounding is; so does one that is ill-conditioned, which is then no fault of the formula.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.battery.inquiry.base import Base, clean
from backproof.probe import blocks, move, signed, spacing, stream
from backproof.trial import BackwardRaised, Graph, Refused, Trial
from backproof.trial.vectors import Vector, minus, norm

SCALE = 1.37
"""Of a cotangent: not a power of two, so that every product rounds anew."""


@dataclass(frozen=True)
class BackwardNoise:
    """How a gradient changes when it may change by its rounding only.

    Attributes:
        change: float64 (n_i,) an input.
        is_rounding: whether it is small enough to be that; else x sits on a kink, or
            the gradient is nothing but rounding itself.
    """

    change: list[Tensor | None]
    is_rounding: bool


def backward_noise(
    trial: Trial, base: Base, cotangent: Tensor, gradient: Vector
) -> BackwardNoise | None:
    """The change of the gradient; None where it cannot be taken again.

    Costs 1 forward and 1 backward; a second backward at the same inputs where the first
    change is too large for rounding, because x may sit on a kink.
    """
    limit = base.precision.linear * norm(gradient)
    scaled = trial.represent(cotangent * SCALE)
    try:
        change = _change(pull_nudged(trial, scaled), gradient)
        if norm(change) > limit:
            change = _change(trial.pull(base.graph, scaled), gradient)
    except (Refused, BackwardRaised):
        return None
    return BackwardNoise(change, is_rounding=norm(change) <= limit)


def pull_nudged(trial: Trial, cotangent: Tensor) -> list[Tensor | None]:
    """Backward of a cotangent at inputs moved in their last place, or not at all.

    Raises:
        Refused: forward raises there.
        BackwardRaised: backward raises there.
    """
    return nudged(trial, cotangent)[1]


def nudged(trial: Trial, cotangent: Tensor) -> tuple[Graph, list[Tensor | None]]:
    """The same with the graph it was pulled from."""
    graph = trial.record(move(trial.points, _last_places(trial), 1.0))
    return graph, trial.pull(graph, cotangent)


def _change(scaled: list[Tensor | None], gradient: Vector) -> list[Tensor | None]:
    back = [None if g is None else g / SCALE for g in clean(scaled)]
    return minus(back, gradient)


def _last_places(trial: Trial) -> list[Tensor]:
    generator = stream(trial.seed, 200)
    out: list[Tensor] = []
    for point in trial.points:
        step = torch.empty_like(point.values)
        for part in blocks(step.numel()):
            x = point.values[part]
            size = x.abs().nan_to_num_(0.0, 0.0, 0.0)
            draw = signed(generator, x.numel())
            unit = spacing(size, point.dtype).mul_(draw.mul_(1.5).round_())
            # Zero stays zero: its neighbours are farther below it than any rounding.
            torch.mul(unit, size.clamp_(max=1).sign_(), out=step[part])
        out.append(step)
    return out
