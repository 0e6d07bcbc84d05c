"""`DistributedDataParallel` with one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch.distributed as distributed
from torch.nn.parallel import DistributedDataParallel

from backproof.battery.survey.context import Compared, Skipped, compared, context
from backproof.battery.survey.scene import Scene


@context("eager", code="BP602")
def ddp_gloo_1proc(scene: Scene) -> Iterator[Compared]:
    """A module that holds the subject, in `DistributedDataParallel` on gloo."""
    if not distributed.is_available() or not distributed.is_gloo_available():
        raise Skipped("this torch has no gloo")
    if distributed.is_initialized():
        raise Skipped("a process group of the caller's is running")
    known = scene.gradients()
    store: Any = distributed.HashStore()  # type: ignore[attr-defined]
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        held = scene.held()
        free = scene.leaves()[: held.free]
        outputs = DistributedDataParallel(held)(*free)
        scene.loss(outputs).backward()  # type: ignore[no-untyped-call]
        found = [p.grad for p in held.parameters()]
    finally:
        distributed.destroy_process_group()
    yield from compared("gradient", scene.names[held.free :], found, known[held.free :])
