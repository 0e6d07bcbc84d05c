"""Jacobians column by column: `jacfwd`."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.forward_mode import tangents_agree
from backproof.battery.survey.scene import Scene

_COLUMNS = 3


@context("func", code="BP306")
def func_jacfwd(scene: Scene) -> Iterator[Compared]:
    """`torch.func.jacfwd` along a few directions, of all inputs and of each alone."""
    every = range(len(scene.names))
    function, base = scene.function, scene.plain()
    directions = [scene.tangents(k) for k in range(_COLUMNS)]

    def shifted(s: torch.Tensor, moving: list[int]) -> tuple[torch.Tensor, ...]:
        moved = list(base)
        for k in moving:
            for i, tangents in enumerate(directions):
                moved[k] = moved[k] + s[i].to(base[k].dtype) * tangents[k]
        return function(*moved)

    subsets = [list(every), *([k] for k in every if len(every) > 1)]
    for moving in subsets:
        scene.plain()  # starts the random numbers anew
        found = torch.func.jacfwd(shifted)(scene.coordinates(_COLUMNS), moving)
        for i, tangents in enumerate(directions):
            alone = [
                t if k in moving else torch.zeros_like(t)
                for k, t in enumerate(tangents)
            ]
            yield from tangents_agree(scene, [y[..., i] for y in found], alone)
