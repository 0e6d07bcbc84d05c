"""Dual tensors of `torch.autograd.forward_ad`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch.autograd.forward_ad as forward_ad

from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.forward_mode import tangents_agree
from backproof.battery.survey.scene import Scene


@context("func", code="BP305")
def forward_ad_dual(scene: Scene) -> Iterator[Compared]:
    """A dual tensor comes out with the derivative as its tangent, not without one."""
    tangents = scene.tangents()
    function, inputs = scene.function, scene.plain()
    dual: Any = forward_ad
    with dual.dual_level():
        duals = [dual.make_dual(x, t) for x, t in zip(inputs, tangents, strict=True)]
        pushed = [dual.unpack_dual(y).tangent for y in function(*duals)]
    yield from tangents_agree(scene, pushed, tangents)
