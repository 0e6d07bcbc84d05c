"""Copies of a module that holds the subject."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator

import torch

from backproof.battery.survey.agreement import outputs_agree
from backproof.battery.survey.call import Held
from backproof.battery.survey.context import Compared, Refusal, compared, context
from backproof.battery.survey.scene import Scene


@context("eager", code="BP205")
def deepcopy_module(scene: Scene) -> Iterator[Compared]:
    """`copy.deepcopy` of the module computes the same."""
    scene.prepare()
    yield from _alike(scene, _copied(copy.deepcopy, scene.held()))


@context("eager", code="BP205")
def pickle_module(scene: Scene) -> Iterator[Compared]:
    """The module, pickled and loaded, computes the same."""
    scene.prepare()
    yield from _alike(
        scene, _copied(lambda held: pickle.loads(pickle.dumps(held)), scene.held())
    )


def _copied(make: Callable[[Held], Held], held: Held) -> Held:
    try:
        return make(held)
    except Exception as error:
        raise Refusal from error


def _alike(scene: Scene, module: Held) -> Iterator[Compared]:
    outputs = module(*scene.leaves()[: module.free])
    yield from outputs_agree(scene, outputs)
    weights = list(module.parameters())
    found = torch.autograd.grad(scene.loss(outputs), weights, allow_unused=True)
    names, known = scene.names[module.free :], scene.gradients()[module.free :]
    yield from compared("gradient", names, found, known)
