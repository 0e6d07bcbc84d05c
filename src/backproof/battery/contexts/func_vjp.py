"""`torch.func.vjp`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from backproof.battery.survey.agreement import outputs_agree
from backproof.battery.survey.context import Compared, compared, context
from backproof.battery.survey.scene import Scene


@context("func", code="BP303")
def func_vjp(scene: Scene) -> Iterator[Compared]:
    """The pullback of `torch.func.vjp` gives eager's gradient, the second time too."""
    known = [scene.pulled(scene.cotangents(k)) for k in (0, 1)]
    pulled: Any = torch.func.vjp(scene.function, *scene.plain())
    outputs, pullback = pulled
    yield from outputs_agree(scene, outputs)
    for k, right in enumerate(known):
        found = pullback(tuple(scene.cotangents(k)))
        yield from compared("gradient", scene.names, found, right)
