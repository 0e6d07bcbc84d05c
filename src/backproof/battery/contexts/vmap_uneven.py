"""`vmap` where some inputs have no batch dimension."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch.func import vmap

from backproof.battery.survey.batch_size import telling_size
from backproof.battery.survey.context import Compared, NotApplicable, compared, context
from backproof.battery.survey.known import stacked
from backproof.battery.survey.scene import Scene

_SUBSETS = 4


@context("vmap", code="BP309")
def vmap_uneven(scene: Scene) -> Iterator[Compared]:
    """Some of the inputs are batched and the others shared: up to four ways."""
    count = len(scene.names)
    if count < 2:
        raise NotApplicable("there is one differentiable input only")
    for batched in _subsets(count):
        size = telling_size(scene, [k for k in range(count) if k not in batched])
        plain, stacked = scene.plain(), scene.batch(size)
        given = [stacked[k] if k in batched else plain[k] for k in range(count)]
        dims = tuple(0 if k in batched else None for k in range(count))
        found = vmap(scene.function, in_dims=dims, randomness="same")(*given)
        known = scene.shared(size, batched=batched)
        names = ", ".join(scene.names[k] for k in batched)
        for name, mine, right in zip(scene.output_names, found, known, strict=True):
            what = f"{name} with {names} batched"
            yield Compared("output", what, mine, right)


def _subsets(count: int) -> list[tuple[int, ...]]:
    """Proper subsets of the inputs: each input alone and each but one come first."""
    every = tuple(range(count))
    ordered: list[tuple[int, ...]] = [(k,) for k in every]
    ordered += [tuple(i for i in every if i != k) for k in every]
    ordered += itertools.chain.from_iterable(
        itertools.combinations(every, size) for size in range(2, count - 1)
    )
    unique = list(dict.fromkeys(ordered))
    if len(unique) <= _SUBSETS:
        return unique
    stride = len(unique) / _SUBSETS
    return [unique[int(k * stride)] for k in range(_SUBSETS)]


@context("vmap", code="BP309")
def nested_vmap(scene: Scene) -> Iterator[Compared]:
    """`vmap` inside `vmap` gives each example of each group its own outputs."""
    groups = [scene.batch(2), [t.flip(0) for t in scene.batch(2)]]
    nested = [torch.stack(list(same)) for same in zip(*groups, strict=True)]
    inner = vmap(scene.function, randomness="same")
    found = vmap(inner, randomness="same")(*nested)
    row = scene.stacked(scene.outputs, 2)
    back = scene.stacked(lambda k: scene.outputs(1 - k), 2)
    known = [stacked([a, b]) for a, b in zip(row, back, strict=True)]
    yield from compared("output", scene.output_names, found, known)
