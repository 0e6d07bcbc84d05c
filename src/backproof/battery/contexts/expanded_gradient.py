"""A cotangent that is one number, expanded."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backproof.battery.survey.context import Compared, compared, context
from backproof.battery.survey.scene import Scene


@context("eager", code="BP503")
def expanded_noncontig_grad(scene: Scene) -> Iterator[Compared]:
    """The cotangent of a sum, which has stride 0, gives what a dense one of ones gives."""
    ones = [torch.ones_like(u) for u in scene.loss.weights]
    known = scene.pulled([u.contiguous() for u in ones])
    leaves = scene.leaves()
    outputs = scene.function(*leaves)
    expanded = [torch.ones_like(u.sum()).expand(u.shape) for u in ones]
    gradients = torch.autograd.grad(outputs, leaves, expanded, allow_unused=True)
    yield from compared("gradient", scene.names, gradients, known)
