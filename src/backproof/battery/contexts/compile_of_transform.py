"""`torch.compile` around transforms of torch.func."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, hessian, jvp, vmap

from backproof.battery.survey.agreement import gradients_agree, outputs_agree
from backproof.battery.survey.context import Compared, Skipped, compared, context
from backproof.battery.survey.forward_mode import tangents_agree
from backproof.battery.survey.scene import Scene
from backproof.battery.survey.second_order import SecondOrder

_SIZE = 3
_LARGEST = 64  # elements of an input whose whole Hessian is computed


def _compiled(function: Any) -> Any:
    return torch.compile(function, backend="aot_eager", fullgraph=True)


@context("compile", code="BP402")
def compile_of_func_grad(scene: Scene) -> Iterator[Compared]:
    """Compiled `grad`."""
    every = tuple(range(len(scene.names)))
    objective = scene.objective

    def gradient(*tensors: Tensor) -> Any:
        return grad(objective, argnums=every)(*tensors)

    yield from gradients_agree(scene, _compiled(gradient)(*scene.plain()))


@context("compile", code="BP402")
def compile_of_vmap(scene: Scene) -> Iterator[Compared]:
    """Compiled `vmap`."""
    function = scene.function

    def batched(*tensors: Tensor) -> Any:
        return vmap(function, randomness="same")(*tensors)

    known = scene.stacked(scene.outputs, _SIZE)
    found = _compiled(batched)(*scene.batch(_SIZE))
    yield from compared("output", scene.output_names, found, known)


@context("compile", code="BP402")
def compile_of_jvp(scene: Scene) -> Iterator[Compared]:
    """Compiled `jvp`."""
    function, tangents = scene.function, scene.tangents()
    count = len(tangents)

    def push(*tensors: Tensor) -> Any:
        return jvp(function, tensors[:count], tensors[count:])

    outputs, pushed = _compiled(push)(*scene.plain(), *tangents)
    yield from outputs_agree(scene, outputs)
    yield from tangents_agree(scene, pushed, tangents)


@context("compile", code="BP402")
def compile_vmap_grad(scene: Scene) -> Iterator[Compared]:
    """Compiled `vmap` over `grad`."""
    every = tuple(range(len(scene.names)))
    gradient = vmap(grad(scene.objective, argnums=every), randomness="same")
    known = scene.stacked(scene.gradients, _SIZE)
    found = _compiled(gradient)(*scene.batch(_SIZE))
    yield from compared("gradient", scene.names, found, known)


@context("compile", code="BP402")
def compile_hessian(scene: Scene) -> Iterator[Compared]:
    """Compiled `hessian` in the first input."""
    second, base = SecondOrder(scene), scene.plain()
    first, *others = base
    if first.is_complex():
        raise Skipped("the Hessian in a complex input is not asked for")
    if first.numel() > _LARGEST:
        raise Skipped(
            f"the Hessian of {first.numel()} elements is too large to compile"
        )
    directions = [
        [t[0], *(torch.zeros_like(other) for other in t[1:])] for t in second.tangents
    ]
    known = second.along(directions)
    function, loss = scene.function, second.loss

    def objective(x: Tensor) -> Tensor:
        return loss(function(x, *others))

    found = _compiled(hessian(objective))(first).double()
    count = first.numel()
    along = torch.stack([d[0].reshape(count) for d in directions]).double()
    contracted = along @ found.reshape(count, count) @ along.T
    yield Compared("second", f"hessian of {scene.names[0]}", contracted, known)
