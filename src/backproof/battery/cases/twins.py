"""The same call with two of its inputs equal, or with one tensor in both places."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from backproof.trial import Trial
from backproof.trial.trial import is_differentiable

_MOST = 4  # pairs


@dataclass(frozen=True)
class Twins:
    """Two inputs of one shape and type.

    Attributes:
        first: its number among the differentiable inputs.
        second: likewise.
        equal: a trial in which both hold the first one's values.
    """

    first: int
    second: int
    equal: Trial


def twins(trial: Trial) -> Iterator[Twins]:
    """Every pair of inputs that could be one tensor, up to four."""
    where = [k for k, leaf in enumerate(trial.leaves) if is_differentiable(leaf)]
    pairs = (
        (a, b)
        for a, b in itertools.combinations(range(len(where)), 2)
        if _alike(trial, a, b)
    )
    for a, b in itertools.islice(pairs, _MOST):
        leaves = list(trial.leaves)
        copied = leaves[where[a]].detach().clone()
        leaves[where[b]] = copied.requires_grad_()
        yield Twins(a, b, trial.with_leaves(leaves))


def _alike(trial: Trial, a: int, b: int) -> bool:
    x, y = trial.inputs[a], trial.inputs[b]
    return (
        x.original.shape == y.original.shape
        and x.original.dtype == y.original.dtype
        and x.point.domain == y.point.domain
    )
