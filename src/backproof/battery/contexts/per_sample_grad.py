"""`vmap` over `grad`."""

from __future__ import annotations

from collections.abc import Iterator

from torch.func import grad, vmap

from backproof.battery.survey.context import Compared, compared, context
from backproof.battery.survey.scene import Scene

_SIZE = 3


@context("vmap", code="BP308")
def per_sample_grad(scene: Scene) -> Iterator[Compared]:
    """Per-sample gradients, of all inputs and of shared weights."""
    every = tuple(range(len(scene.names)))
    gradient = grad(scene.objective, argnums=every)
    found = vmap(gradient, randomness="same")(*scene.batch(_SIZE))
    known = scene.stacked(scene.gradients, _SIZE)
    yield from compared("gradient", scene.names, found, known)
    if len(every) == 1:
        return
    shared, batched = scene.plain(), scene.batch(_SIZE)
    dims = (0, *(None for _ in every[1:]))
    given = [batched[0], *shared[1:]]
    found = vmap(gradient, in_dims=dims, randomness="same")(*given)
    known = scene.shared_gradients(_SIZE, batched=(0,))
    names = [f"{n}, of each sample" for n in scene.names]
    yield from compared("gradient", names, found, known)
