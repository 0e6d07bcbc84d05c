"""An exported program that is differentiated."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from backproof.battery.survey.agreement import both_agree
from backproof.battery.survey.call import Exported, Held
from backproof.battery.survey.context import Compared, compared, context
from backproof.battery.survey.loss import Loss
from backproof.battery.survey.scene import Scene


@context("export", code="BP405")
def export_strict_then_bwd(scene: Scene) -> Iterator[Compared]:
    """Exported strictly with leaves that need gradients, then trained."""
    yield from _trained(scene, strict=True)


@context("export", code="BP405")
def export_nonstrict_then_bwd(scene: Scene) -> Iterator[Compared]:
    """Exported non-strictly with leaves that need gradients, then trained."""
    yield from _trained(scene, strict=False)


def _trained(scene: Scene, *, strict: bool) -> Iterator[Compared]:
    scene.prepare()
    module = Exported(scene.call, len(scene.names))
    kept = scene.kept
    program = torch.export.export(module, (*scene.leaves(), *kept), strict=strict)
    run = program.module()
    yield from both_agree(scene, lambda *tensors: run(*tensors, *kept))


class _Objective(torch.nn.Module):
    """The loss of a module."""

    def __init__(self, held: Held, loss: Loss) -> None:
        super().__init__()
        self.held, self.loss = held, loss

    def forward(self, *free: Tensor) -> Tensor:
        return self.loss(self.held(*free))


@context("export", code="BP405")
def export_joint_experimental(scene: Scene) -> Iterator[Compared]:
    """The joint graph of forward and backward, exported with parameters."""
    from torch.export.experimental import _export_forward_backward

    known = scene.gradients()
    module = _Objective(scene.held(), scene.loss)
    free = tuple(scene.plain()[: module.held.free])
    program = torch.export.export(module, free, strict=False)
    joint = _export_forward_backward(program)
    flat = dict(joint.graph_signature.inputs_to_parameters)
    values = {**joint.state_dict, **joint.constants}
    targets = {**flat, **joint.graph_signature.inputs_to_buffers}
    targets |= joint.graph_signature.inputs_to_lifted_tensor_constants
    users = iter(free)
    given = [
        values[targets[name]] if name in targets else next(users)
        for name in (spec.arg.name for spec in joint.graph_signature.input_specs)
    ]
    # Past the calling convention of the program before: inputs in the graph's own order.
    interpreter = torch.fx.Interpreter(joint.graph_module)
    found = interpreter.run(*given, enable_io_processing=False)
    by_name = dict(zip(_output_names(joint), found, strict=True))
    gradients = joint.graph_signature.backward_signature.gradients_to_parameters
    of = {parameter: by_name[name] for name, parameter in gradients.items()}
    mine = [of.get(name) for name, _ in module.named_parameters()]
    names = scene.names[module.held.free :]
    yield from compared("gradient", names, mine, known[module.held.free :])


def _output_names(joint: torch.export.ExportedProgram) -> list[str]:
    return [spec.arg.name for spec in joint.graph_signature.output_specs]
