"""Forward values along a line: odd and even parts at three rungs.

    O_m = (y(x + m d) - y(x - m d)) / 2        E_m = (y(x + m d) + y(x - m d)) / 2 - y(x)

at m = 1, r, r^2. Odd parts hold the derivative, even parts curvature and kinks. They
are stored for each output, so that any cotangent can be contracted with them later.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.probe.line import Point

Evaluate = Callable[[Sequence[Tensor]], Tensor]
"""Forward: one float64 (n_i,) an input -> all outputs, float64 (num_outputs,)."""


@dataclass
class Ladder:
    """Outputs along one line, or summed along several (`count` of them).

    Attributes:
        steps: the smallest step of each input, float64 (n_i,); None where it stays.
        odd: float64 (3, num_outputs).
        even: float64 (3, num_outputs).
        reach: largest |y(x ± m d) - y(x)| / m over the rungs, (num_outputs,).
        ratio: of neighbouring rungs.
        count: number of lines summed here.
    """

    steps: list[Tensor | None]
    odd: Tensor
    even: Tensor
    reach: Tensor
    ratio: int
    count: int = 1

    def keep(self, mask: Tensor) -> None:
        """Forget the outputs outside the boolean `mask` (num_outputs,)."""
        if bool(mask.all()):
            return
        for part in (self.odd, self.even, self.reach):
            part.masked_fill_(~mask, 0.0)

    @property
    def finite(self) -> Tensor:
        """Where every rung gave a finite output, boolean (num_outputs,)."""
        return torch.isfinite(self.reach)


def climb(
    evaluate: Evaluate,
    points: Sequence[Point],
    base: Tensor,
    lines: Sequence[Sequence[Tensor | None]],
    ratio: int,
) -> Ladder:
    """The ladder along each of `lines`, summed: 6 forward calls a line.

    Derivatives add up over lines while noise adds in quadrature, which is the only way
    to gain precision in 16 bits. `base` is y(x), finite.
    """
    total: Ladder | None = None
    for steps in lines:
        one = _climb(evaluate, points, base, list(steps), ratio)
        if total is None:
            total = one
            continue
        total.odd += one.odd
        total.even += one.even
        total.reach = torch.maximum(total.reach, one.reach)
        total.steps = [_sum(a, b) for a, b in zip(total.steps, one.steps, strict=True)]
        total.count += 1
    assert total is not None
    return total


def move(
    points: Sequence[Point], steps: Sequence[Tensor | None], m: float
) -> list[Tensor]:
    """The inputs at x + m d; those without a step as they are."""
    return [
        point.values if step is None else torch.add(point.values, step, alpha=m)
        for point, step in zip(points, steps, strict=True)
    ]


def _climb(
    evaluate: Evaluate,
    points: Sequence[Point],
    base: Tensor,
    steps: list[Tensor | None],
    ratio: int,
) -> Ladder:
    odd = torch.empty((3, base.numel()), dtype=torch.float64)
    even = torch.empty_like(odd)
    reach: Tensor | None = None
    for rung in range(3):
        m = float(ratio**rung)
        plus = evaluate(move(points, steps, m)) - base
        minus = evaluate(move(points, steps, -m)) - base
        torch.sub(plus, minus, out=odd[rung])
        torch.add(plus, minus, out=even[rung])
        far = torch.maximum(plus.abs_(), minus.abs_()).div_(m)
        reach = far if reach is None else torch.maximum(reach, far, out=reach)
    assert reach is not None
    return Ladder(steps, odd.div_(2), even.div_(2), reach, ratio)


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return a if b is None else b if a is None else a + b


@dataclass(frozen=True)
class Forms:
    """Linear forms on (O_1, O_r, O_r2) or (E_1, E_r, E_r2), each float64 (3,).

    `first`, `second`, `third` are the difference quotients; `near` and `far` their
    Richardson extrapolations, `best` the extrapolation of those. `odd` and `even` are
    the smoothness contrasts: zero for polynomials up to degree 4 and 5. `kink` is half
    the gap between the one-sided slopes.
    """

    first: Tensor
    second: Tensor
    third: Tensor
    near: Tensor
    far: Tensor
    best: Tensor
    odd: Tensor
    even: Tensor
    kink: Tensor


@functools.lru_cache
def forms(ratio: int) -> Forms:
    """The forms for rungs 1, r, r^2."""
    r = float(ratio)
    m = torch.tensor([1.0, r, r * r], dtype=torch.float64)
    first, second, third = torch.diag(1 / m)
    near = (r**2 * first - second) / (r**2 - 1)
    far = (r**2 * second - third) / (r**2 - 1)
    best = (r**4 * near - far) / (r**4 - 1)
    square = torch.diag(1 / m**2)
    bend_near = (r**2 * square[0] - square[1]) / (r**2 - 1)
    bend_far = (r**2 * square[1] - square[2]) / (r**2 - 1)
    kink = torch.tensor([-r * r, r * r + 1, -1.0], dtype=torch.float64)
    kink /= r * (r - 1) ** 2
    return Forms(
        first, second, third, near, far, best, near - far, bend_near - bend_far, kink
    )


@functools.lru_cache
def odd_gain(form: Tensor, count: int = 1) -> float:
    """Standard deviation of an odd form for unit noise in each evaluation."""
    return math.sqrt(count * float(form.square().sum()) / 2)


@functools.lru_cache
def even_gain(form: Tensor, count: int = 1) -> float:
    """The same for an even form, whose base value is shared by all rungs and lines."""
    return math.sqrt(
        count * (float(form.square().sum()) / 2 + count * float(form.sum()) ** 2)
    )
