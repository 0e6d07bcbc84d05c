"""Other calls of a scene's subject: larger ones, other random numbers, equal inputs."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from backproof import tree
from backproof.battery.survey.scene import Scene
from backproof.trial import Trial


def doubled(scene: Scene) -> Scene | None:
    """The same call of twice the size: None where eager mode does not run with it.

    Every tensor whose first dimension is as long as the first input's gets twice as many
    rows; where that does not run, the first input alone.
    """
    first = scene.trial.inputs[0].original
    if not first.dim():
        return None
    for only_first in (False, True):
        with contextlib.suppress(Exception):  # this way of growing may not fit
            larger = _with_leaves(scene, _longer(scene, first.shape[0], only_first))
            if len(larger.shapes) == len(scene.shapes):
                return larger
    return None


def reseeded(scene: Scene, change: int) -> Scene:
    """The same call with other random numbers."""
    trial = copy.copy(scene.trial)
    trial.seed += change
    return Scene(trial)


def interchangeable(scene: Scene) -> tuple[int, int] | None:
    """Two inputs (i, j) such that input i can be given for input j as well."""
    for i, j in ((0, 1), (1, 0)):
        tensors = scene.plain()
        if len(tensors) < 2 or tensors[0].dtype != tensors[1].dtype:
            return None
        tensors[j] = tensors[i]
        with contextlib.suppress(Exception), torch.no_grad():
            if [y.shape for y in scene.function(*tensors)] == scene.shapes:
                return i, j
    return None


def _longer(scene: Scene, rows: int, only_first: bool) -> Callable[[Any], Any]:  # noqa: FBT001
    """A function that is given the arguments' leaves in order, and gives larger ones."""
    twice = iter(
        torch.cat([x, y]) if x.dim() and x.shape[0] == rows else x
        for x, y in zip(scene.plain(0), scene.plain(1), strict=True)
    )
    grown = 0

    def longer(leaf: Any) -> Any:
        nonlocal grown
        if not isinstance(leaf, Tensor):
            return leaf
        larger = next(twice) if leaf.requires_grad else torch.cat([leaf, leaf])
        if not leaf.dim() or leaf.shape[0] != rows or (only_first and grown):
            return leaf
        grown += 1
        return larger.detach().requires_grad_(leaf.requires_grad)

    return longer


def _with_leaves(scene: Scene, change: Callable[[Any], Any]) -> Scene:
    case = scene.trial.case
    whole = (case.arguments, dict(case.keywords))
    leaves = [change(leaf) for _, leaf in tree.leaves(whole, "argument")]
    arguments, keywords = tree.rebuild(whole, iter(leaves))
    other = replace(case, arguments=arguments, keywords=keywords)
    return Scene(Trial(scene.trial.subject, other, seed=scene.trial.seed))
