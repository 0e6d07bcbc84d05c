"""`torch.func.functionalize`."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backproof.battery.survey.agreement import outputs_agree
from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.scene import Scene


@context("func", code="BP409")
def functionalize(scene: Scene) -> Iterator[Compared]:
    """Writes are replaced by copies, and views as well."""
    scene.prepare()
    for remove in ("mutations", "mutations_and_views"):
        pure = torch.func.functionalize(scene.function, remove=remove)
        yield from outputs_agree(scene, pure(*scene.plain()))
