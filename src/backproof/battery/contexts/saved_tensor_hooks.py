"""Saved tensors that go through hooks."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from backproof.battery.survey.agreement import both_agree, gradients_agree
from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.scene import Scene


@context("eager", code="BP203")
def save_on_cpu(scene: Scene) -> Iterator[Compared]:
    """`torch.autograd.graph.save_on_cpu`."""
    scene.prepare()
    with torch.autograd.graph.save_on_cpu():
        yield from both_agree(scene, scene.function)


@context("eager", code="BP203")
def saved_tensor_hooks(scene: Scene) -> Iterator[Compared]:
    """Hooks that hand out a copy each time, and a backward that runs twice."""
    scene.prepare()

    def unpack(packed: Tensor) -> Tensor:
        return packed.clone()

    with torch.autograd.graph.saved_tensors_hooks(torch.clone, unpack):
        leaves = scene.leaves()
        loss = scene.loss(scene.function(*leaves))
    state = torch.get_rng_state()
    for _ in range(2):
        torch.set_rng_state(state)
        gradients = torch.autograd.grad(
            loss, leaves, retain_graph=True, allow_unused=True
        )
        yield from gradients_agree(scene, gradients)
