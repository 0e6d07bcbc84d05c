"""`torch.func.vmap` with one batch dimension for every input."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.func import functional_call, vmap

from backproof.battery.survey.agreement import examples
from backproof.battery.survey.context import Compared, compared, context
from backproof.battery.survey.scene import Scene

_SIZE = 3


@context("vmap", code="BP301")
def func_vmap(scene: Scene) -> Iterator[Compared]:
    """`vmap` gives each example the outputs that it gets alone."""
    found = vmap(scene.function, randomness="same")(*scene.batch(_SIZE))
    known = scene.stacked(scene.outputs, _SIZE)
    yield from compared("output", scene.output_names, found, known)


@context("vmap", code="BP301")
def vmap_outer_autograd(scene: Scene) -> Iterator[Compared]:
    """A backward through the result of `vmap` gives each example its own gradient."""
    leaves = [t.requires_grad_() for t in scene.batch(_SIZE)]
    outputs = vmap(scene.function, randomness="same")(*leaves)
    misshapen = [c for c in examples(scene, outputs, _SIZE, "output") if not c.alike]
    if misshapen:
        yield from misshapen
        return
    losses = [scene.loss([y[k] for y in outputs]) for k in range(_SIZE)]
    found = torch.autograd.grad(torch.stack(losses).sum(), leaves, allow_unused=True)
    known = scene.stacked(scene.gradients, _SIZE)
    yield from compared("gradient", scene.names, found, known)


@context("vmap", code="BP301")
def ensemble_vmap(scene: Scene) -> Iterator[Compared]:
    """`vmap` over stacked parameters of a module, the other input being shared."""
    module = scene.held()
    free = tuple(scene.plain()[: module.free])
    stacked = scene.batch(_SIZE)[module.free :]
    names = [name for name, _ in module.named_parameters()]

    def one(*weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = dict(zip(names, weights, strict=True))
        result: tuple[torch.Tensor, ...] = functional_call(module, given, free)
        return result

    known = scene.shared(_SIZE, batched=range(module.free, len(scene.names)))
    found = vmap(one, randomness="same")(*stacked)
    yield from compared("output", scene.output_names, found, known)
