"""Another call of the same form, inside of the domain: what a second call is made with."""

from __future__ import annotations

import torch
from torch import Tensor

from backproof.probe import coarsest, direction, move, stream
from backproof.trial.trial import Refused, Trial

_FAR = 4.0  # times the step of a look: far from rounding, near enough to stay inside


def elsewhere(trial: Trial) -> list[Tensor]:
    """Other values of the differentiable inputs, float64 (n_i,).

    A few steps from the case's and in reverse order, so that masks, orders and places of
    a maximum are others too; in the same order where forward does not bear that. Costs 1
    forward.
    """
    precision, random = coarsest(trial.dtypes), stream(trial.seed, 800)
    steps = [direction(p, precision, random, factor=_FAR) for p in trial.points]
    near = move(trial.points, steps, 1.0)
    if any(p.domain.structure is not None for p in trial.points):
        return near
    turned = [values.flip(0) for values in near]
    try:
        fine = bool(torch.isfinite(trial.forward(turned)).all())
    except Refused:
        fine = False
    return turned if fine else near
