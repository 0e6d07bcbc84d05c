"""`torch.func.linearize`."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backproof.battery.survey.agreement import outputs_agree
from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.forward_mode import tangents_agree
from backproof.battery.survey.scene import Scene


@context("func", code="BP305")
def func_linearize(scene: Scene) -> Iterator[Compared]:
    """`torch.func.linearize` gives a linear map that can be used more than once."""
    outputs, push = torch.func.linearize(scene.function, *scene.plain())
    yield from outputs_agree(scene, outputs)
    for which in (0, 1):
        tangents = scene.tangents(which)
        yield from tangents_agree(scene, push(*tangents), tangents)
