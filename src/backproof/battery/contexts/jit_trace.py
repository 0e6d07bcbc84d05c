"""`torch.jit.trace`."""

from __future__ import annotations

import io
from collections.abc import Iterator

import torch

from backproof.battery.survey.agreement import both_agree, outputs_agree, refuse_modules
from backproof.battery.survey.call import Exported
from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.scene import Scene


@context("export", code="BP405")
def jit_trace_then_bwd(scene: Scene) -> Iterator[Compared]:
    """Traced, then differentiated."""
    refuse_modules(scene)
    scene.prepare()
    traced = torch.jit.trace(scene.function, tuple(scene.leaves()), check_trace=False)  # type: ignore[no-untyped-call]
    yield from both_agree(scene, traced)


@context("export", code="BP406")
def jit_trace_save_load(scene: Scene) -> Iterator[Compared]:
    """Traced, saved, loaded, and run on the traced values and on others."""
    refuse_modules(scene)
    scene.prepare(0, 1)
    module, kept = Exported(scene.call, len(scene.names)), scene.kept
    traced = torch.jit.trace(module, (*scene.plain(), *kept), check_trace=False)  # type: ignore[no-untyped-call]
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    loaded = torch.jit.load(file)  # type: ignore[no-untyped-call]
    for sample in (0, 1):
        outputs = loaded(*scene.plain(sample), *scene.kept)
        yield from outputs_agree(scene, outputs, sample)
