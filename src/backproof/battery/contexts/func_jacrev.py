"""Jacobians row by row: `jacrev` and its relatives in torch.autograd."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backproof.battery.survey.context import Compared, compared, context
from backproof.battery.survey.rows import Rows
from backproof.battery.survey.scene import Scene


@context("func", code="BP304")
def func_jacrev(scene: Scene) -> Iterator[Compared]:
    """`torch.func.jacrev` of a few outputs gives eager's rows."""
    rows = Rows(scene)
    every = tuple(range(len(scene.names)))
    found = torch.func.jacrev(rows.function, argnums=every)(*scene.plain())
    yield from compared("jacobian", scene.names, found, rows.known())


@context("func", code="BP304")
def functional_jacobian_vectorized(scene: Scene) -> Iterator[Compared]:
    """`torch.autograd.functional.jacobian(vectorize=True)` gives eager's rows."""
    rows = Rows(scene)
    found = torch.autograd.functional.jacobian(  # type: ignore[no-untyped-call]
        rows.function, tuple(scene.plain()), vectorize=True
    )
    yield from compared("jacobian", scene.names, found, rows.known())


@context("func", code="BP304")
def is_grads_batched(scene: Scene) -> Iterator[Compared]:
    """`torch.autograd.grad(is_grads_batched=True)` gives eager's rows."""
    rows = Rows(scene)
    leaves = scene.leaves()
    chosen = rows.function(*leaves)
    unit = torch.eye(len(chosen), dtype=chosen.dtype, device=chosen.device)
    found = torch.autograd.grad(
        chosen, leaves, unit, is_grads_batched=True, allow_unused=True
    )
    yield from compared("jacobian", scene.names, found, rows.known())
