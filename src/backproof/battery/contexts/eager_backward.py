"""Forward and backward once more, plainly and with torch looking closely."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from backproof.battery.survey.agreement import both_agree
from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.known import Known
from backproof.battery.survey.scene import Scene


@context("eager", code="BP601")
def eager_fwd_bwd(scene: Scene) -> Iterator[Compared]:
    """A second forward and backward on the same inputs give the same numbers."""
    scene.prepare()
    for one in list(both_agree(scene, scene.function)):
        assert isinstance(one.expected, Known)
        # What changes from call to call is no excuse for changing from call to call.
        yield replace(one, expected=replace(one.expected, movement=lambda: 0.0))


@context("eager", code="BP601")
def anomaly_mode(scene: Scene) -> Iterator[Compared]:
    """Under anomaly detection the numbers are the same, and nothing is called a NaN."""
    scene.prepare()
    with torch.autograd.set_detect_anomaly(mode=True):
        yield from both_agree(scene, scene.function)


class _PassThrough(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operation, and hands it on."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


@context("eager", code="BP601")
def tensor_subclass_logging(scene: Scene) -> Iterator[Compared]:
    """Under a `TorchDispatchMode` that changes nothing, nothing changes."""
    scene.prepare()
    with _PassThrough():  # type: ignore[no-untyped-call]
        yield from both_agree(scene, scene.function)
