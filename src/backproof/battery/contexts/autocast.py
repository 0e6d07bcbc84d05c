"""Autocast: forward runs in a region of it, and backward outside, as torch advises."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from backproof.battery.survey.context import Compared, NotApplicable, context
from backproof.battery.survey.known import Known
from backproof.battery.survey.scene import Scene
from backproof.probe import PRECISIONS

_LOW = torch.bfloat16
_OF_TYPES = ("dtype", "scalar type")  # in what torch says of two types
_ROUNDINGS = 4.0  # of the low type, relative to a tensor's largest element


@context("eager", code="BP507")
def autocast(scene: Scene) -> Iterator[Compared]:
    """Backward after the region gives what backward inside of it gives."""
    _refuse_other_types(scene)
    function = scene.function
    leaves = scene.leaves()
    with _region(scene):
        outputs = function(*leaves)
    try:
        after = _gradients(scene, outputs, leaves)
    except RuntimeError as error:
        if not _is_mismatch(error):
            raise
        words = f"raises once the region has ended: {str(error).splitlines()[0]}"
        types = ", ".join(str(y.dtype).removeprefix("torch.") for y in outputs)
        yield Compared("backward", f"backward of {types} outputs", words, "")
        return
    leaves = scene.leaves()
    with _region(scene):
        inside = _gradients(scene, scene.function(*leaves), leaves)
    yield from _alike("gradient", scene.names, after, inside, scene)


@context("compile", code="BP507")
def autocast_compiled(scene: Scene) -> Iterator[Compared]:
    """A compiled call under autocast has eager's dtypes and numbers."""
    _refuse_other_types(scene)
    compiled = torch.compile(scene.function, backend="aot_eager", fullgraph=True)
    found = [_run(scene, function) for function in (scene.function, compiled)]
    (outputs, gradients), (my_outputs, my_gradients) = found
    yield from _alike("output", scene.output_names, my_outputs, outputs, scene)
    yield from _alike("gradient", scene.names, my_gradients, gradients, scene)


def _is_mismatch(error: RuntimeError) -> bool:
    """Whether torch was given two types where it takes one.

    What the subject raises by itself is a refusal.
    """
    last = traceback.extract_tb(error.__traceback__)[-1]
    by_hand = "torch" not in Path(last.filename).parts
    if by_hand and (last.line or "").startswith("raise "):
        return False
    return any(words in str(error) for words in _OF_TYPES)


def _run(
    scene: Scene, function: Callable[..., Any]
) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
    leaves = scene.leaves()
    with _region(scene):
        outputs = function(*leaves)
    return outputs, _gradients(scene, outputs, leaves)


def _refuse_other_types(scene: Scene) -> None:
    tensors = [i.original for i in scene.trial.inputs] + scene.kept
    if all(t.dtype != torch.float32 for t in tensors):
        raise NotApplicable("autocast casts float32 only, and no input is float32")


def _region(scene: Scene) -> torch.autocast:
    device = scene.trial.inputs[0].original.device.type
    return torch.autocast(device, dtype=_LOW)


def _gradients(
    scene: Scene, outputs: Sequence[Tensor], leaves: list[Tensor]
) -> Sequence[Tensor | None]:
    weights = [u.to(y.dtype) for u, y in zip(scene.loss.weights, outputs, strict=True)]
    return torch.autograd.grad(outputs, leaves, weights, allow_unused=True)


def _alike(
    kind: str,
    names: Sequence[str],
    got: Sequence[Tensor | None],
    expected: Sequence[Tensor | None],
    scene: Scene,
) -> Iterator[Compared]:
    """The same up to the rounding of the low type."""
    for name, mine, right in zip(names, got, expected, strict=True):
        value = None if right is None else right.detach()
        known = Known(value, _LOW, scene.size, lambda: 0.0)
        if value is not None and value.numel():
            top = float(value.abs().double().nan_to_num(0.0, 0.0, 0.0).max())
            known = replace(known, bar=_ROUNDINGS * PRECISIONS[_LOW].eps * top)
        yield Compared(kind, f"{kind} of {name} under autocast", mine, known)
