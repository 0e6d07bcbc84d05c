"""The same call where only some of the inputs need a gradient."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from backproof.battery.cases.variant import Variant
from backproof.probe import stream
from backproof.trial import Trial
from backproof.trial.trial import is_differentiable

_EVERY = 5  # inputs of which every subset is tried: 30 of them
_PAIRS = 10  # drawn where there are more, beside each input alone and each left out


def subsets(trial: Trial) -> Iterator[Variant]:
    """All proper subsets of the inputs; above five inputs a sample.

    `label` of a variant lists the names that need a gradient.
    """
    count = len(trial.inputs)
    where = [k for k, leaf in enumerate(trial.leaves) if is_differentiable(leaf)]
    for chosen in _chosen(count, trial.seed):
        kept = {where[n] for n in chosen}
        leaves = [
            leaf.detach() if is_differentiable(leaf) and k not in kept else leaf
            for k, leaf in enumerate(trial.leaves)
        ]
        names = ", ".join(trial.inputs[n].name for n in chosen)
        words = f"only {names} need{'s' if len(chosen) == 1 else ''} a gradient"
        yield Variant(words, trial.with_leaves(leaves), label=names)


def _chosen(count: int, seed: int) -> list[tuple[int, ...]]:
    every = range(count)
    if count <= _EVERY:
        return [
            chosen
            for size in range(1, count)
            for chosen in itertools.combinations(every, size)
        ]
    alone = [(k,) for k in every]
    without = [tuple(n for n in every if n != k) for k in every]
    random = stream(seed, 700)
    pairs = {
        tuple(sorted(int(k) for k in random.choice(count, 2, replace=False)))
        for _ in range(_PAIRS)
    }
    return [*alone, *without, *sorted(pairs)]
