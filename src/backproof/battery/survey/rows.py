"""A few rows of the Jacobian, whatever its size."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from backproof.battery.survey.known import Known
from backproof.battery.survey.scene import Scene
from backproof.probe import stream

_ROWS = 6


class Rows:
    """Some elements of the outputs, drawn at random, all where there are few.

    Attributes:
        function: differentiable tensors -> these elements, (m,).
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        sizes = [shape.numel() for shape in scene.shapes]
        total = sum(sizes)
        chance = stream(scene.trial.seed, 74)
        chosen = sorted(chance.permutation(total)[: min(total, _ROWS)].tolist())
        self._picks: list[tuple[int, Tensor]] = []
        start = 0
        for k, size in enumerate(sizes):
            mine = [c - start for c in chosen if start <= c < start + size]
            if mine:
                self._picks.append((k, torch.tensor(mine)))
            start += size
        inner = scene.function

        def function(*tensors: Tensor) -> Tensor:
            return self.chosen(inner(*tensors))

        self.function = function

    def chosen(self, outputs: Sequence[Tensor]) -> Tensor:
        """The elements, complex ones as their real parts, in the first one's type."""
        parts = []
        for k, where in self._picks:
            part = outputs[k].reshape(-1)[where.to(outputs[k].device)]
            parts.append(part.real if part.is_complex() else part)
        first = parts[0]
        return torch.cat([p.to(first.dtype) for p in parts])

    def known(self) -> list[Known]:
        """Eager mode's rows: for each input (m, *shape)."""

        def compute(leaves: list[Tensor]) -> list[Tensor | None]:
            chosen = self.chosen(self.scene.function(*leaves))
            rows = [
                torch.autograd.grad(e, leaves, retain_graph=True, allow_unused=True)
                for e in chosen
            ]
            return [
                None if same[0] is None else torch.stack(list(same))
                for same in zip(*rows, strict=True)
            ]

        return self.scene.know(compute)
