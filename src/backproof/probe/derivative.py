"""d/dt <u, y(x + t d)> at 0, with an error bar, from forward values only.

Six candidates come from the three rungs: difference quotients and their Richardson
extrapolations. Each has a bar,

    z x gain x noise  +  kappa x truncation,

and the smallest bar wins. The truncation estimate is a difference of neighbouring
candidates, deliberately not divided by r^2 - 1: with many kinks inside the step the
differences shrink like sqrt(h) instead of h^2, and the undivided one still covers them.

The noise has two parts: the variance of each output, and the contrast of the contracted
values, which alone sees noise that is common to all outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.probe.block import blocks
from backproof.probe.estimate import Estimate
from backproof.probe.ladder import Form, Ladder, forms
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
    stack = torch.stack(list(cotangents), 1)
    contracted = [(ladder.moved @ stack).T for ladder in ladders]
    independent = [_independent(u, response) for u in cotangents]
    common = [
        _common([values[j] for values in contracted], ladders)
        for j in range(len(cotangents))
    ]
    return [
        [
            _slope(
                ladder,
                values[j],
                response.precision,
                math.hypot(independent[j][0], common[j]),
                independent[j][1] * response.relative_step * ladder.count,
            )
            for j in range(len(cotangents))
        ]
        for ladder, values in zip(ladders, contracted, strict=True)
    ]


def _independent(cotangent: Tensor, response: Response) -> tuple[float, float]:
    """(noise of the contraction from independent outputs, its natural size)."""
    size = noise = 0.0
    for part in blocks(cotangent.numel()):
        square = cotangent[part].square()
        size += float(square @ response.scale[part].square())
        noise += float(square @ response.variance[part])
    return math.sqrt(noise), math.sqrt(size)


def _common(contracted: Sequence[Tensor], ladders: Sequence[Ladder]) -> float:
    """Noise of one evaluation, as the contrasts of the contracted values show it."""
    total = 0.0
    for values, ladder in zip(contracted, ladders, strict=True):
        for contrast in (forms(ladder.ratio).odd, forms(ladder.ratio).even):
            noise = _apply(contrast, values) / contrast.gain(ladder.count)
            total += noise * noise  # not **, which raises where this is inf
    return math.sqrt(total / (2 * len(ladders)))


def _apply(form: Form, values: Tensor) -> float:
    return float(form.weights @ values)


def _slope(
    ladder: Ladder,
    values: Tensor,
    precision: Precision,
    noise: float,
    natural: float,
) -> Slope:
    shape, n, r = forms(ladder.ratio), ladder.count, float(ladder.ratio)
    quotients = (shape.first, shape.second, shape.third)
    d1, d2, d3 = (_apply(form, values) for form in quotients)
    richardson = (shape.near, shape.far, shape.best)
    near, far, best = (_apply(form, values) for form in richardson)
    candidates = (
        (d1, shape.first, abs(d1 - d2)),
        (d2, shape.second, max(abs(d2 - d3), abs(d2 - near))),
        (near, shape.near, abs(near - far)),
        (d3, shape.third, max(abs(d2 - d3), abs(d3 - far))),
        (far, shape.far, min(abs(near - far), abs(d2 - d3) / 2) + abs(far - d2) / r),
        (best, shape.best, abs(near - far)),
    )
    bars = [
        (value, precision.z * form.gain(n) * noise, precision.kappa * truncation)
        for value, form, truncation in candidates
    ]
    value, from_noise, from_step = min(bars, key=lambda bar: bar[1] + bar[2])
    return Slope(
        Estimate(value, from_noise + from_step, from_noise, from_step),
        kink=_apply(shape.kink, values),
        kink_error=precision.z * shape.kink.gain(n) * noise,
        natural=natural,
    )
