"""d/dt <u, y(x + t d)> at 0, with an error bar, from forward values only.

Six candidates come from the three rungs: difference quotients and their Richardson
extrapolations. Each has a bar,

    z x gain x noise  +  kappa x truncation,

and the smallest bar wins. The truncation estimate is a difference of neighbouring
candidates, deliberately not divided by r^2 - 1: with many kinks inside the step the
differences shrink like sqrt(h) instead of h^2, and the undivided one still covers them.

The noise has three parts: the rounding prior of independent outputs, the variance each
output showed, and the contrast of the contracted values, which alone sees noise that is
common to all outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.probe.estimate import Estimate
from backproof.probe.ladder import Ladder, even_gain, forms, odd_gain
from backproof.probe.precision import Precision
from backproof.probe.response import Response


@dataclass(frozen=True)
class Slope:
    """The derivative along one ladder for one cotangent.

    Attributes:
        estimate: the derivative, per smallest step of the ladder.
        kink: half the gap between the slopes from the two sides.
        kink_error: its bar.
        natural: the slope of a function that changes by 100 % when its input does.
    """

    estimate: Estimate
    kink: float
    kink_error: float
    natural: float

    @property
    def has_kink(self) -> bool:
        """Whether the two sides differ by more than noise explains."""
        return abs(self.kink) > self.kink_error


def slopes(
    ladders: Sequence[Ladder], response: Response, cotangents: Sequence[Tensor]
) -> list[list[Slope]]:
    """The slope along each ladder for each cotangent, float64 (num_outputs,)."""
    stack = torch.stack(list(cotangents))
    contracted = [(l.odd @ stack.T, l.even @ stack.T) for l in ladders]  # noqa: E741
    independent = [_independent(u, response) for u in cotangents]
    common = [
        _common([(o[:, j], e[:, j]) for o, e in contracted], ladders)
        for j in range(len(cotangents))
    ]
    return [
        [
            _slope(
                ladder,
                odd[:, j].tolist(),
                even[:, j].tolist(),
                response.precision,
                math.hypot(independent[j][0], common[j]),
                independent[j][1] * response.relative_step * ladder.count,
            )
            for j in range(len(cotangents))
        ]
        for ladder, (odd, even) in zip(ladders, contracted, strict=True)
    ]


def _independent(cotangent: Tensor, response: Response) -> tuple[float, float]:
    """(noise of the contraction from independent outputs, its natural size)."""
    square = cotangent.square()
    size = float(square @ response.scale.square())
    prior = (response.precision.prior * response.precision.eps) ** 2 * size
    return math.sqrt(prior + float(square @ response.variance)), math.sqrt(size)


def _common(
    contracted: Sequence[tuple[Tensor, Tensor]], ladders: Sequence[Ladder]
) -> float:
    """Noise of one evaluation, as the contrasts of the contracted values show it."""
    shape = forms(ladders[0].ratio)
    total = 0.0
    for (odd, even), ladder in zip(contracted, ladders, strict=True):
        n = ladder.count
        total += (float(shape.odd @ odd) / odd_gain(shape.odd, n)) ** 2
        total += (float(shape.even @ even) / even_gain(shape.even, n)) ** 2
    return math.sqrt(total / (2 * len(ladders)))


def _slope(
    ladder: Ladder,
    odd: list[float],
    even: list[float],
    precision: Precision,
    noise: float,
    natural: float,
) -> Slope:
    shape, n, r = forms(ladder.ratio), ladder.count, float(ladder.ratio)

    def apply(form: Tensor, values: list[float]) -> float:
        return sum(w * v for w, v in zip(form.tolist(), values, strict=True))

    d1, d2, d3 = (apply(f, odd) for f in (shape.first, shape.second, shape.third))
    near, far, best = (apply(f, odd) for f in (shape.near, shape.far, shape.best))
    candidates = (
        (d1, shape.first, abs(d1 - d2)),
        (d2, shape.second, max(abs(d2 - d3), abs(d2 - near))),
        (near, shape.near, abs(near - far)),
        (d3, shape.third, max(abs(d2 - d3), abs(d3 - far))),
        (far, shape.far, min(abs(near - far), abs(d2 - d3) / 2) + abs(far - d2) / r),
        (best, shape.best, abs(near - far)),
    )
    bars = [
        (value, precision.z * odd_gain(form, n) * noise, precision.kappa * truncation)
        for value, form, truncation in candidates
    ]
    value, from_noise, from_step = min(bars, key=lambda bar: bar[1] + bar[2])
    return Slope(
        Estimate(value, from_noise + from_step, from_noise, from_step),
        kink=apply(shape.kink, even),
        kink_error=precision.z * even_gain(shape.kink, n) * noise,
        natural=natural,
    )
