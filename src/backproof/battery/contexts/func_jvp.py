"""`torch.func.jvp`, alone and under `vmap`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from backproof.battery.survey.agreement import examples, outputs_agree
from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.forward_mode import tangents_agree
from backproof.battery.survey.scene import Scene


@context("func", code="BP305")
def func_jvp(scene: Scene) -> Iterator[Compared]:
    """`torch.func.jvp` gives the derivative that backward is the transpose of."""
    tangents = scene.tangents()
    inputs = tuple(scene.plain())
    both: Any = torch.func.jvp(scene.function, inputs, tuple(tangents))
    outputs, pushed = both
    yield from outputs_agree(scene, outputs)
    yield from tangents_agree(scene, pushed, tangents)


@context("func", code="BP305")
def vmap_jvp(scene: Scene) -> Iterator[Compared]:
    """`vmap` over `jvp` gives each example its own derivative."""
    size = 3
    function = scene.function
    tangents = [scene.tangents(k) for k in range(size)]
    stacked = [torch.stack(list(same)) for same in zip(*tangents, strict=True)]

    def push(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        count = len(tensors) // 2
        pushed: tuple[torch.Tensor, ...] = torch.func.jvp(
            function, tensors[:count], tensors[count:]
        )[1]
        return pushed

    batched = torch.func.vmap(push, randomness="same")(*scene.batch(size), *stacked)
    misshapen = [c for c in examples(scene, batched, size, "tangent") if not c.alike]
    if misshapen:
        yield from misshapen
        return
    for sample in range(size):
        mine = [t[sample] for t in batched]
        yield from tangents_agree(scene, mine, tangents[sample], sample)
