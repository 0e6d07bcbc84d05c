"""Other parameters for a module that holds the subject."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backproof.battery.survey.agreement import outputs_agree
from backproof.battery.survey.context import Compared, compared, context
from backproof.battery.survey.scene import Scene


@context("eager", code="BP208")
def functional_call_bwd(scene: Scene) -> Iterator[Compared]:
    """`torch.func.functional_call` computes with the parameters that it is given."""
    module, sample = scene.held(), 1
    scene.prepare(sample)
    leaves = scene.leaves(sample)
    free, given = leaves[: module.free], leaves[module.free :]
    weights = {k: t for (k, _), t in zip(module.named_parameters(), given, strict=True)}
    outputs = torch.func.functional_call(module, weights, tuple(free))
    yield from outputs_agree(scene, outputs, sample)
    found = torch.autograd.grad(scene.loss(outputs), given, allow_unused=True)
    known = scene.gradients(sample)[module.free :]
    yield from compared("gradient", scene.names[module.free :], found, known)
