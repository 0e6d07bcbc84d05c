"""Compiled autograd: the backward pass is traced as it runs."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backproof.battery.survey.agreement import gradients_agree, outputs_agree
from backproof.battery.survey.context import Compared, context
from backproof.battery.survey.scene import Scene


@context("compile", code="BP408")
def compiled_autograd(scene: Scene) -> Iterator[Compared]:
    """Eager forward, and a backward that compiled autograd traces."""
    import torch._dynamo.compiled_autograd as tracing

    scene.prepare()
    leaves = scene.leaves()
    outputs = scene.function(*leaves)
    loss = scene.loss(outputs)
    with tracing._enable(torch.compile(backend="aot_eager", fullgraph=True)):
        loss.backward()  # type: ignore[no-untyped-call]
    yield from outputs_agree(scene, outputs)
    yield from gradients_agree(scene, [x.grad for x in leaves])
