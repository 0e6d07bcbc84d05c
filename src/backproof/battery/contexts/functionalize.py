"""`torch.func.functionalize`."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backproof.battery.survey.agreement import outputs_agree
from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.scene import Scene


@context("func", code="BP409")
def functionalize(scene: Scene) -> Iterator[Compared]:
    """Writes and views are replaced by copies."""
    scene.prepare()
    outputs = torch.func.functionalize(scene.function)(*scene.plain())
    yield from outputs_agree(scene, outputs)
