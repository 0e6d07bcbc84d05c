"""Where the inputs of a scene lie: at the case, a little beside it, and an ulp off."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from backproof.probe import PRECISIONS, direction, signs, spacing, stream
from backproof.trial import Trial
from backproof.trial.copies import twin

Sample = int | tuple[int, ...]
"""0 is the case itself, others lie a little beside it; a tuple has one for each input."""

_SHARES = (0.2, 0.02)  # how far a sample lies from the case, relative to each element
_TANGENT = 0.3  # likewise for the length of a tangent
_TANGENTS_FROM = 1000  # the streams of tangents, apart from those of samples


class Samples:
    """Values of the inputs, and directions between them.

    They keep the domains that the case declares, and each element its sign.

    Args:
        trial: the subject on the case.
        works: whether eager mode gives outputs of the usual form for these tensors.
    """

    def __init__(self, trial: Trial, works: Callable[[list[Tensor]], bool]) -> None:
        self._trial, self._works = trial, works

    def tensors(self, sample: Sample, nudge: int) -> list[Tensor]:
        """Fresh inputs of this sample, in their types and layouts.

        Args:
            sample: which values.
            nudge: not 0 to move each element by an ulp, in another way for each.
        """
        return self._at(self._values(sample, nudge))

    def tangents(self, which: int) -> list[Tensor]:
        """A direction, a share of the inputs long; another one for each `which`."""
        return self._at(self._steps(_TANGENTS_FROM + which, _TANGENT))

    def _at(self, values: Sequence[Tensor]) -> list[Tensor]:
        tensors = [i.at(v) for i, v in zip(self._trial.inputs, values, strict=True)]
        # A complex one is a view of its real parts, which tracers cannot take in.
        return [twin(t) if t.is_complex() else t for t in tensors]

    def _values(self, sample: Sample, nudge: int) -> list[Tensor]:
        points = self._trial.points
        which = (sample,) * len(points) if isinstance(sample, int) else sample
        sampled = {k: self._beside(k, self._share) for k in set(which) if k}
        values = [
            sampled[s][k] if s else point.values
            for k, (s, point) in enumerate(zip(which, points, strict=True))
        ]
        if not nudge:
            return values
        chance = stream(self._trial.seed, 72, nudge)
        return [
            v + signs(chance, v.numel()) * spacing(_finite(v).abs(), point.dtype)
            for v, point in zip(values, points, strict=True)
        ]

    def _beside(self, sample: int, share: float) -> list[Tensor]:
        steps = self._steps(sample, share)
        return [p.values + s for p, s in zip(self._trial.points, steps, strict=True)]

    @functools.cached_property
    def _share(self) -> float:
        """How far samples may lie from the case: as far as eager mode works there."""
        for share in _SHARES:
            if all(self._works(self._at(self._beside(k, share))) for k in (1, 2)):
                return share
        return 0.0

    def _steps(self, which: int, share: float) -> list[Tensor]:
        steps = []
        for k, point in enumerate(self._trial.points):
            precision = PRECISIONS[point.dtype]
            factor = share / (precision.step * precision.top)
            chance = stream(self._trial.seed, 73, which, k)
            one = direction(point, precision, chance, factor=factor)
            steps.append(one * precision.top if share else torch.zeros_like(one))
        return steps


def _finite(values: Tensor) -> Tensor:
    return values.nan_to_num(0.0, 0.0, 0.0)
