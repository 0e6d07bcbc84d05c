"""Another call of the same form, inside of the domain: what a second call is made with."""

from __future__ import annotations

from torch import Tensor

from backproof.probe import coarsest, direction, move, stream
from backproof.trial.trial import Trial

_FAR = 4.0  # times the step of a look: far from rounding, near enough to stay inside


def elsewhere(trial: Trial) -> list[Tensor]:
    """Values of the differentiable inputs a few steps from the case's, float64 (n_i,)."""
    precision, random = coarsest(trial.dtypes), stream(trial.seed, 800)
    steps = [direction(p, precision, random, factor=_FAR) for p in trial.points]
    return move(trial.points, steps, 1.0)
