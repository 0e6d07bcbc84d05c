"""Outputs and gradients that came out of a context, beside eager mode's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from backproof.battery.survey.context import Compared, NotApplicable, compared
from backproof.battery.survey.scene import Scene


def outputs_agree(
    scene: Scene, outputs: Sequence[Tensor], sample: int = 0
) -> Iterator[Compared]:
    """Each output beside eager mode's."""
    yield from compared("output", scene.output_names, outputs, scene.outputs(sample))


def gradients_agree(
    scene: Scene, gradients: Sequence[Any], sample: int = 0
) -> Iterator[Compared]:
    """Each gradient of the loss beside eager mode's."""
    yield from compared("gradient", scene.names, gradients, scene.gradients(sample))


def both_agree(
    scene: Scene, function: Callable[..., Sequence[Tensor]], sample: int = 0
) -> Iterator[Compared]:
    """Run forward and backward through `function`, a form of the subject's."""
    leaves = scene.leaves(sample)
    outputs = function(*leaves)
    gradients: Sequence[Tensor | None] = ()
    alike = [y.shape for y in outputs] == scene.shapes
    if alike:
        loss = scene.loss(outputs)
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
    yield from outputs_agree(scene, outputs, sample)
    if alike:
        yield from gradients_agree(scene, gradients, sample)


def examples(
    scene: Scene, batched: Sequence[Tensor], size: int, words: str
) -> Iterator[Compared]:
    """Whether each batched output has one example a sample: what else is asked needs it."""
    for name, got, shape in zip(scene.output_names, batched, scene.shapes, strict=True):
        yield Compared(
            words, f"shape of the {words} {name}", tuple(got.shape), (size, *shape)
        )


def refuse_modules(scene: Scene) -> None:
    """For tracers that do not see through an exchange of a module's parameters.

    Raises:
        NotApplicable: the subject is a module.
    """
    if scene.trial.subject.module is not None:
        raise NotApplicable(
            "a module's parameters are inputs here, and this tracer cannot exchange them"
        )
