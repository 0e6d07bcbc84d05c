"""`vmap` with the batch elsewhere than in front."""

from __future__ import annotations

from collections.abc import Iterator

from torch.func import vmap

from backproof.battery.survey.batch_size import telling_size
from backproof.battery.survey.context import Compared, compared, context
from backproof.battery.survey.scene import Scene


@context("vmap", code="BP309")
def vmap_indim1(scene: Scene) -> Iterator[Compared]:
    """The batch is the last dimension of every input."""
    size = telling_size(scene, range(len(scene.names)))
    last = [t.movedim(0, -1).contiguous() for t in scene.batch(size)]
    dims = tuple(t.dim() - 1 for t in last)
    found = vmap(scene.function, in_dims=dims, randomness="same")(*last)
    known = scene.stacked(scene.outputs, size)
    yield from compared("output", scene.output_names, found, known)


@context("vmap", code="BP309")
def vmap_mixed_dims(scene: Scene) -> Iterator[Compared]:
    """Every input has its batch in another dimension, and so has every output."""
    ranks = [i.original.dim() + 1 for i in scene.trial.inputs]
    dims = tuple((k + 1) % rank for k, rank in enumerate(ranks))
    size = telling_size(scene, [k for k, d in enumerate(dims) if d])
    batched = scene.batch(size)
    moved = [t.movedim(0, d).contiguous() for t, d in zip(batched, dims, strict=True)]
    outs = tuple(len(shape) for shape in scene.shapes)
    found = vmap(scene.function, in_dims=dims, out_dims=outs, randomness="same")(*moved)
    front = [y.movedim(d, 0) for y, d in zip(found, outs, strict=True)]
    known = scene.stacked(scene.outputs, size)
    yield from compared("output", scene.output_names, front, known)
