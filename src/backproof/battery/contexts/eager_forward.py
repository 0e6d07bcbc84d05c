"""Forward alone, in the modes in which nothing is recorded."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backproof.battery.survey.agreement import outputs_agree
from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.scene import Scene


@context("eager", code="BP504")
def eager_fwd_nograd(scene: Scene) -> Iterator[Compared]:
    """Forward under `torch.no_grad()` gives the values that it has with a graph."""
    with torch.no_grad():
        yield from outputs_agree(scene, scene.function(*scene.plain()))


@context("eager", code="BP504")
def inference_mode(scene: Scene) -> Iterator[Compared]:
    """Forward under `torch.inference_mode()` gives the same values."""
    with torch.inference_mode():
        function, tensors = scene.function, scene.plain()
        outputs = [y.clone() for y in function(*tensors)]
    yield from outputs_agree(scene, outputs)
