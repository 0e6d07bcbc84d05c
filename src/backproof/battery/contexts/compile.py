"""`torch.compile` of the call, with backward outside of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from backproof.battery.survey.agreement import (
    both_agree,
    gradients_agree,
    outputs_agree,
)
from backproof.battery.survey.context import Compared, NotApplicable, compared, context
from backproof.battery.survey.other_calls import doubled, interchangeable
from backproof.battery.survey.scene import Scene


def _compiled(
    scene: Scene, backend: str, *, fullgraph: bool = True, **options: Any
) -> Any:
    return torch.compile(
        scene.function, backend=backend, fullgraph=fullgraph, **options
    )


@context("compile", code="BP401")
def compile_eager_backend(scene: Scene) -> Iterator[Compared]:
    """Traced by dynamo and run as it is."""
    scene.prepare()
    yield from both_agree(scene, _compiled(scene, "eager"))


@context("compile", code="BP401")
def compile_aot_eager(scene: Scene) -> Iterator[Compared]:
    """Forward and backward traced, and neither compiled any further."""
    scene.prepare()
    compiled = _compiled(scene, "aot_eager")
    yield from both_agree(scene, compiled)
    yield from both_agree(scene, compiled, sample=1)


@context("compile", code="BP401", inductor=True)
def compile_inductor(scene: Scene) -> Iterator[Compared]:
    """Compiled by Inductor."""
    yield from _by_inductor(scene)


@context("compile", code="BP401", inductor=True)
def compile_inductor_dynamic(scene: Scene) -> Iterator[Compared]:
    """Compiled by Inductor for shapes that may change."""
    yield from _by_inductor(scene, dynamic=True)


@context("compile", code="BP401", inductor=True)
def compile_no_fullgraph_inductor(scene: Scene) -> Iterator[Compared]:
    """Compiled by Inductor, with graph breaks where they are needed."""
    yield from _by_inductor(scene, fullgraph=False)


@context("compile", code="BP401", inductor=True)
def compile_nograd_inductor(scene: Scene) -> Iterator[Compared]:
    """Forward alone, compiled by Inductor under `torch.no_grad()`."""
    scene.prepare()
    with _same_random_numbers(), torch.no_grad():
        yield from outputs_agree(scene, _compiled(scene, "inductor")(*scene.plain()))


def _by_inductor(scene: Scene, **options: Any) -> Iterator[Compared]:
    scene.prepare()
    with _same_random_numbers():
        yield from both_agree(scene, _compiled(scene, "inductor", **options))


def _same_random_numbers() -> Any:
    """Inductor draws its own random numbers unless it is told not to."""
    import torch._inductor.config as inductor_config

    return inductor_config.patch(fallback_random=True)


@context("compile", code="BP401")
def aot_function(scene: Scene) -> Iterator[Compared]:
    """Forward and backward traced by AOTAutograd, without dynamo."""
    from functorch.compile import aot_function as traced  # type: ignore[import-untyped]
    from functorch.compile import nop

    scene.prepare()
    graph, kept = traced(scene.whole, fw_compiler=nop, bw_compiler=nop), scene.kept
    yield from both_agree(scene, lambda *tensors: graph(*tensors, *kept))


@context("compile", code="BP401")
def compile_dynamic_shapes(scene: Scene) -> Iterator[Compared]:
    """Compiled once for shapes that may change, and used with a second size."""
    other = doubled(scene)
    if other is None:
        raise NotApplicable("eager mode does not run with inputs of twice the size")
    compiled = torch.compile(
        scene.whole, backend="aot_eager", fullgraph=True, dynamic=True
    )
    for one in (scene, other):
        kept = one.kept
        yield from both_agree(
            one, lambda *tensors, kept=kept: compiled(*tensors, *kept)
        )


@context("compile", code="BP401")
def compile_autograd_grad_inside(scene: Scene) -> Iterator[Compared]:
    """`torch.autograd.grad` inside of what is compiled."""
    scene.prepare()
    objective = scene.objective

    def step(*leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(objective(*leaves), leaves)

    with torch._dynamo.config.patch(trace_autograd_ops=True):
        compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
        yield from gradients_agree(scene, compiled(*scene.leaves()))


@context("compile", code="BP401", inductor=True)
def same_tensor_twice_compiled(scene: Scene) -> Iterator[Compared]:
    """One tensor for two inputs, compiled by Inductor: both halves of its gradient."""
    pair = interchangeable(scene)
    if pair is None:
        raise NotApplicable("no one tensor fits two of the inputs")
    first, second = pair
    shared = first - (first > second)  # its place once the second is left out
    function = scene.function

    def twice(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = list(tensors)
        given.insert(second, given[shared])
        return function(*given)

    def run(f: Any, leaves: list[torch.Tensor]) -> list[Any]:
        given = leaves[:second] + leaves[second + 1 :]
        outputs = f(*given)
        gradients = torch.autograd.grad(scene.loss(outputs), given, allow_unused=True)
        return [*outputs, *gradients]

    known = scene.know(lambda leaves: run(twice, leaves))
    with _same_random_numbers():
        compiled = torch.compile(twice, backend="inductor", fullgraph=True)
        found = run(compiled, scene.leaves())
    names = scene.names[:second] + scene.names[second + 1 :]
    count = len(scene.output_names)
    yield from compared("output", scene.output_names, found[:count], known[:count])
    yield from compared("gradient", names, found[count:], known[count:])
