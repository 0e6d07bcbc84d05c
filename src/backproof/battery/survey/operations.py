"""How many torch operations a subject runs: what every tracer has to go through."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from backproof.battery.survey.scene import Scene
from backproof.trial.inside import seen_inside


def num_operations(scene: Scene) -> int:
    """Of one forward and backward, those of the loss among them."""
    with torch.enable_grad(), _Counting() as counting:
        leaves = scene.leaves()
        loss = scene.objective(*leaves)
        torch.autograd.grad(loss, leaves, allow_unused=True)
    count: int = counting.count
    return count


class _Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += 1
        return seen_inside(self, func, args, kwargs or {})
