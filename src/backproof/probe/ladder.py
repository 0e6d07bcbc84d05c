"""Forward values along a line, at three rungs to both sides.

    y(x ± m d) - y(x)        at m = 1, r, r^2

They are stored for each output, so that any cotangent can be contracted with them later.
Everything that is asked of them is a linear form on these six numbers: the odd part
holds the derivative, the even part curvature and kinks.
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

SIDES = (1.0, -1.0)


@dataclass
class Ladder:
    """Outputs along one line, or summed along several (`count` of them).

    Attributes:
        steps: the smallest step of each input, float64 (n_i,); None where it stays.
        moved: y(x + m d) - y(x) for m = 1, -1, r, -r, r^2, -r^2: float64
            (6, num_outputs).
        ratio: of neighbouring rungs.
        count: number of lines summed here.
    """

    steps: list[Tensor | None]
    moved: Tensor
    ratio: int
    count: int = 1

    def keep(self, mask: Tensor) -> None:
        """Forget the outputs outside the boolean `mask` (num_outputs,)."""
        if not bool(mask.all()):
            self.moved.masked_fill_(~mask, 0.0)

    def reach(self, part: slice) -> Tensor:
        """Largest |y(x + m d) - y(x)| / |m| of each output over the rungs, a line."""
        most = self.moved[:, part].abs().mul_(_per_step(self.ratio)).amax(0)
        return most if self.count == 1 else most.div_(self.count)


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
    moved = torch.empty((6, base.numel()), dtype=torch.float64, device="cpu")
    for number, steps in enumerate(lines):
        for row, m in enumerate(_multipliers(ratio)):
            values = evaluate(move(points, steps, m))
            if number == 0:
                torch.sub(values, base, out=moved[row])
            else:
                moved[row] += values - base
    together = [functools.reduce(_sum, steps) for steps in zip(*lines, strict=True)]
    return Ladder(together, moved, ratio, len(lines))


def move(
    points: Sequence[Point], steps: Sequence[Tensor | None], m: float
) -> list[Tensor]:
    """The inputs at x + m d; those without a step as they are."""
    return [
        point.values if step is None else torch.add(point.values, step, alpha=m)
        for point, step in zip(points, steps, strict=True)
    ]


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return a if b is None else b if a is None else a + b


def _multipliers(ratio: int) -> list[float]:
    return [side * float(ratio**rung) for rung in range(3) for side in SIDES]


@functools.lru_cache
def _per_step(ratio: int) -> Tensor:
    m = torch.tensor(_multipliers(ratio), dtype=torch.float64, device="cpu")
    return m.abs().reciprocal_().reshape(6, 1)


@dataclass(frozen=True)
class Form:
    """A linear form on the six values of a ladder.

    Attributes:
        weights: float64 (6,).
        spread: of the form for unit noise in each of the six values.
        shared: the weight that the noise of the base value y(x) gets.
    """

    weights: Tensor
    spread: float
    shared: float

    def gain(self, count: int = 1) -> float:
        """Standard deviation for unit noise in each evaluation, `count` lines summed.

        All lines share one base value, so its noise grows with their number.
        """
        return math.sqrt(count * self.spread**2 + (count * self.shared) ** 2)


@dataclass(frozen=True)
class Forms:
    """What is asked of a ladder.

    `first`, `second`, `third` are the difference quotients at the three rungs; `near`
    and `far` their Richardson extrapolations, `best` the extrapolation of those. `odd`
    and `even` are the smoothness contrasts: zero for polynomials up to degree 4 and 5.
    `kink` is half the gap between the one-sided slopes.
    """

    first: Form
    second: Form
    third: Form
    near: Form
    far: Form
    best: Form
    odd: Form
    even: Form
    kink: Form


@functools.lru_cache
def forms(ratio: int) -> Forms:
    """The forms for rungs 1, r, r^2."""
    r = float(ratio)
    m = torch.tensor([1.0, r, r * r], dtype=torch.float64, device="cpu")
    first, second, third = torch.diag(1 / m)
    near = (r**2 * first - second) / (r**2 - 1)
    far = (r**2 * second - third) / (r**2 - 1)
    best = (r**4 * near - far) / (r**4 - 1)
    square = torch.diag(1 / m**2)
    bend_near = (r**2 * square[0] - square[1]) / (r**2 - 1)
    bend_far = (r**2 * square[1] - square[2]) / (r**2 - 1)
    kink = m.new_tensor([-r * r, r * r + 1, -1.0])
    kink /= r * (r - 1) ** 2
    return Forms(
        first=_odd(first),
        second=_odd(second),
        third=_odd(third),
        near=_odd(near),
        far=_odd(far),
        best=_odd(best),
        odd=_odd(near - far),
        even=_even(bend_near - bend_far),
        kink=_even(kink),
    )


def _odd(rungs: Tensor) -> Form:
    """A form on (y+ - y-)/2 at each rung, in which y(x) cancels."""
    weights = torch.stack([rungs / 2, -rungs / 2], 1).reshape(6)
    return Form(weights, float(weights.norm()), 0.0)


def _even(rungs: Tensor) -> Form:
    """A form on (y+ + y-)/2 - y(x) at each rung."""
    weights = torch.stack([rungs / 2, rungs / 2], 1).reshape(6)
    return Form(weights, float(weights.norm()), float(weights.sum()))
