"""Activation checkpointing: forward runs a second time, inside of backward."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from backproof.battery.survey.agreement import (
    both_agree,
    gradients_agree,
    outputs_agree,
)
from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.scene import Scene


@context("eager", code="BP207")
def checkpoint_nonreentrant(scene: Scene) -> Iterator[Compared]:
    """`checkpoint(use_reentrant=False)`."""
    scene.prepare()
    function = scene.remembering
    yield from both_agree(
        scene, lambda *tensors: checkpoint(function, *tensors, use_reentrant=False)
    )


@context("eager", code="BP207")
def checkpoint_reentrant(scene: Scene) -> Iterator[Compared]:
    """`checkpoint(use_reentrant=True)`, which runs the engine inside of itself."""
    scene.prepare()
    leaves = scene.leaves()
    outputs = checkpoint(scene.remembering, *leaves, use_reentrant=True)
    yield from outputs_agree(scene, outputs)
    scene.loss(outputs).backward()  # type: ignore[no-untyped-call]
    yield from gradients_agree(scene, [x.grad for x in leaves])


@context("eager", code="BP207")
def selective_checkpoint_must_save(scene: Scene) -> Iterator[Compared]:
    """A selective checkpoint that saves what custom operators return."""
    scene.prepare()
    function = scene.remembering

    def policy(_: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        native = "aten" in str(op)
        return (
            CheckpointPolicy.PREFER_RECOMPUTE if native else CheckpointPolicy.MUST_SAVE
        )

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    yield from both_agree(
        scene,
        lambda *tensors: checkpoint(
            function, *tensors, use_reentrant=False, context_fn=contexts
        ),
    )


@context("compile", code="BP207")
def compile_checkpoint_inside(scene: Scene) -> Iterator[Compared]:
    """A checkpoint inside of what is compiled."""
    scene.prepare()
    function = scene.function

    def checkpointed(*tensors: torch.Tensor) -> Any:
        return checkpoint(function, *tensors, use_reentrant=False)

    compiled = torch.compile(checkpointed, backend="aot_eager", fullgraph=True)
    yield from both_agree(scene, compiled)
