"""Other subsets of the inputs need a gradient."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backproof.battery.survey.context import Compared, NotApplicable, context
from backproof.battery.survey.scene import Scene


@context("eager", code="BP504")
def only_w_needs_grad(scene: Scene) -> Iterator[Compared]:
    """The gradient of the last input is the same where the others need none."""
    if len(scene.names) < 2:
        raise NotApplicable("there is one differentiable input only")
    *others, last = scene.plain()
    last.requires_grad_()
    outputs = scene.function(*others, last)
    (gradient,) = torch.autograd.grad(scene.loss(outputs), [last], allow_unused=True)
    what = f"gradient of {scene.names[-1]} alone"
    yield Compared("gradient", what, gradient, scene.gradients()[-1])
