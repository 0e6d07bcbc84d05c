"""`torch.export`, and the exported program run."""

from __future__ import annotations

import io
from collections.abc import Iterator

import torch

from backproof.battery.survey.agreement import outputs_agree
from backproof.battery.survey.call import Exported
from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.other_calls import reseeded
from backproof.battery.survey.scene import Scene

_SEEDS = 6  # a coin that was tossed at export shows with one of them


def _exported(scene: Scene, *, strict: bool) -> torch.export.ExportedProgram:
    module = Exported(scene.call, len(scene.names))
    tensors = (*scene.plain(), *scene.kept)
    return torch.export.export(module, tensors, strict=strict)


def _run(scene: Scene, program: torch.export.ExportedProgram) -> Iterator[Compared]:
    """With the inputs and random numbers of the export, and others: constants show."""
    for sample in (0, 1):
        known = scene.outputs(sample)
        assert len(known) == len(scene.output_names)
        outputs = program.module()(*scene.plain(sample), *scene.kept)
        yield from outputs_agree(scene, outputs, sample)
    for change in range(1, _SEEDS + 1) if scene.draws else ():
        other = reseeded(scene, change)
        kept = other.kept
        outputs = program.module()(*other.plain(), *kept)
        yield from outputs_agree(other, outputs)


@context("export", code="BP403")
def export_strict_fwd(scene: Scene) -> Iterator[Compared]:
    """Exported strictly."""
    yield from _run(scene, _exported(scene, strict=True))


@context("export", code="BP404")
def export_nonstrict_fwd(scene: Scene) -> Iterator[Compared]:
    """Exported non-strictly."""
    yield from _run(scene, _exported(scene, strict=False))


@context("export", code="BP404")
def export_save_load(scene: Scene) -> Iterator[Compared]:
    """Exported non-strictly, saved, loaded."""
    file = io.BytesIO()
    torch.export.save(_exported(scene, strict=False), file)
    file.seek(0)
    yield from _run(scene, torch.export.load(file))
