"""`torch.func.grad`, of the call and of a module that holds it."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backproof.battery.survey.agreement import gradients_agree
from backproof.battery.survey.context import Compared, compared, context
from backproof.battery.survey.scene import Scene


@context("func", code="BP302")
def func_grad(scene: Scene) -> Iterator[Compared]:
    """`torch.func.grad` in all inputs at once, and in each alone."""
    every = tuple(range(len(scene.names)))
    gradients = torch.func.grad(scene.objective, argnums=every)(*scene.plain())
    yield from gradients_agree(scene, gradients)
    if len(every) == 1:
        return
    for k in every:
        alone = torch.func.grad(scene.objective, argnums=k)(*scene.plain())
        yield from compared(
            "gradient", [f"{scene.names[k]} alone"], [alone], [scene.gradients()[k]]
        )


@context("func", code="BP302")
def functional_call_grad(scene: Scene) -> Iterator[Compared]:
    """`torch.func.grad` in the parameters of a module that holds the subject."""
    module, first, loss = scene.held(), scene.plain(), scene.loss

    def objective(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        return loss(torch.func.functional_call(module, weights, tuple(free)))

    free = first[: module.free]
    weights = {k: v.detach() for k, v in module.named_parameters()}
    found = torch.func.grad(objective)(weights)
    known = scene.gradients()[module.free :]
    yield from compared(
        "gradient", scene.names[module.free :], [*found.values()], known
    )
