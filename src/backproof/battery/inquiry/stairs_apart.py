"""Inputs of which forward is piecewise constant, beside others of which it is not.

A quantiser `round(x / s) * s` stands still along x alone and moves with s, so together
its inputs are no staircase, and a gradient for x that lets the cotangent through would
look like a mistake. Nor is its gradient for s forward's derivative where it is that of
the smooth function meant: along s alone forward jumps wherever an element of `x / s`
passes a half.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from backproof.battery.inquiry.conclusion import Kind
from backproof.battery.inquiry.inquiry import Inquiry
from backproof.errors import BadInput
from backproof.trial import BackwardRaised, Refused, Trial
from backproof.trial.trial import is_differentiable

_MOST_INPUTS = 8
_POINTS = 65  # of a walk along one input
_FAR = 0.3  # as a part of its values, to either side
_OUTLIER = 10.0  # times what nine of ten increments stay within
_MOST = 0.25  # of the outputs that move have to jump; those at a bound may not


def surrogates_apart(
    trial: Trial, wrong: Collection[str], *, seed: int
) -> tuple[str, ...]:
    """The inputs that explain a wrong gradient as a surrogate's; none where it is wrong.

    Those along which alone forward is piecewise constant and backward is not zero, if
    forward jumps along each other input of `wrong` as well. Costs an inquiry for each
    input, and 65 forwards for each such other.
    """
    if not 1 < len(trial.inputs) <= _MOST_INPUTS:
        return ()
    stairs = [
        i.name for k, i in enumerate(trial.inputs) if _is_stairs(trial, k, seed=seed)
    ]
    others = [
        k
        for k, i in enumerate(trial.inputs)
        if i.name in wrong and i.name not in stairs
    ]
    if not stairs or not all(_jumps_along(trial, k) for k in others):
        return ()
    return tuple(stairs)


def _is_stairs(trial: Trial, number: int, *, seed: int) -> bool:
    """Whether input `number` alone is one of a staircase with a gradient."""
    where = [k for k, leaf in enumerate(trial.leaves) if is_differentiable(leaf)]
    leaves = [
        leaf.detach() if is_differentiable(leaf) and k != where[number] else leaf
        for k, leaf in enumerate(trial.leaves)
    ]
    alone = trial.with_leaves(leaves, f"with only {trial.inputs[number].name} moving")
    try:
        return Inquiry(alone, seed=seed).conclude().kind is Kind.STAIRCASE
    except (BadInput, Refused, BackwardRaised):
        return False


def _jumps_along(trial: Trial, number: int) -> bool:
    """Whether most outputs that move with one input jump on the way."""
    points: Sequence[Tensor] = [p.values for p in trial.points]
    walk: list[Tensor] = []
    for part in torch.linspace(1 - _FAR, 1 + _FAR, _POINTS).tolist():
        values = [v * part if k == number else v for k, v in enumerate(points)]
        try:
            walk.append(trial.forward(values))
        except Refused:
            return False
    increments = torch.stack(walk).diff(dim=0)
    apart = (increments - increments.median(dim=0).values).abs()
    moving = increments.abs().amax(dim=0) > 0
    if not bool(moving.any()):
        return False
    usual = apart.quantile(0.9, dim=0).clamp(min=1e-300)
    jumps = apart.amax(dim=0) > _OUTLIER * usual
    return float(jumps[moving].double().mean()) > _MOST
