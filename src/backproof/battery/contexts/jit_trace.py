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
    """Traced, saved, loaded, run."""
    refuse_modules(scene)
    known = scene.outputs()
    module, kept = Exported(scene.call, len(scene.names)), scene.kept
    traced = torch.jit.trace(module, (*scene.plain(), *kept), check_trace=False)  # type: ignore[no-untyped-call]
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    outputs = torch.jit.load(file)(*scene.plain(), *kept)  # type: ignore[no-untyped-call]
    assert len(known) == len(scene.output_names)
    yield from outputs_agree(scene, outputs)
