"""Graphs traced by `make_fx`, run on inputs other than the traced ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, vmap

from backproof.battery.survey.agreement import (
    both_agree,
    gradients_agree,
    outputs_agree,
)
from backproof.battery.survey.context import Compared, NotApplicable, compared, context
from backproof.battery.survey.loss import mean_square
from backproof.battery.survey.other_calls import doubled
from backproof.battery.survey.scene import Scene

_SIZE = 3


def _make_fx() -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx


@context("export", code="BP405")
def make_fx_forward_then_bwd(scene: Scene) -> Iterator[Compared]:
    """Forward traced, then differentiated."""
    scene.prepare()
    graph = _make_fx()(scene.function)(*scene.plain())
    yield from both_agree(scene, graph)


@context("export", code="BP406")
def make_fx_fwd_bwd(scene: Scene) -> Iterator[Compared]:
    """Forward and backward traced together, run on other values."""
    scene.prepare(1)
    function, loss = scene.function, scene.loss

    def step(*tensors: Tensor) -> tuple[Any, ...]:
        leaves = [t.detach().requires_grad_() for t in tensors]
        outputs = function(*leaves)
        gradients = torch.autograd.grad(loss(outputs), leaves, allow_unused=True)
        return (*outputs, *gradients)

    graph = _make_fx()(step)(*scene.plain())
    found = graph(*scene.plain(1))
    count = len(scene.output_names)
    yield from outputs_agree(scene, found[:count], 1)
    yield from gradients_agree(scene, found[count:], 1)


@context("export", code="BP406")
def make_fx_symbolic_fwd_bwd(scene: Scene) -> Iterator[Compared]:
    """Traced with symbolic sizes, run with another size."""
    function, count = scene.whole, len(scene.names)

    def step(*tensors: Tensor) -> tuple[Any, ...]:
        leaves = [t.detach().requires_grad_() for t in tensors[:count]]
        outputs = function(*leaves, *tensors[count:])
        loss = mean_square(outputs)
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
        return (*outputs, *gradients)

    other = doubled(scene)
    graph = _make_fx()(step, tracing_mode="symbolic")(*scene.plain(), *scene.kept)
    if other is None:
        raise NotApplicable("eager mode does not run with inputs of twice the size")

    def compute(leaves: list[Tensor]) -> list[Any]:
        outputs = other.function(*leaves)
        gradients = torch.autograd.grad(mean_square(outputs), leaves, allow_unused=True)
        return [*outputs, *gradients]

    known = other.know(compute)
    found = graph(*other.plain(), *other.kept)
    outputs = len(scene.output_names)
    yield from compared("output", scene.output_names, found[:outputs], known[:outputs])
    yield from compared("gradient", scene.names, found[outputs:], known[outputs:])


@context("export", code="BP406")
def make_fx_vmap_grad(scene: Scene) -> Iterator[Compared]:
    """Per-sample gradients traced."""
    every = tuple(range(len(scene.names)))
    gradient = vmap(grad(scene.objective, argnums=every), randomness="same")
    known = scene.stacked(scene.gradients, _SIZE)
    graph = _make_fx()(gradient)(*scene.batch(_SIZE))
    yield from compared("gradient", scene.names, graph(*scene.batch(_SIZE)), known)
