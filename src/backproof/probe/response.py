"""What each output does along the lines: its scale, its noise, and where it is smooth.

The noise of an output is the larger of two: a prior, the rounding that its type cannot
avoid, and what the smoothness contrasts of its own ladder show. Noise that most outputs
share (an inner computation in a coarser type, a cancellation) shows as a factor on the
prior, the `crowd`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.probe.ladder import Ladder, even_gain, forms, odd_gain
from backproof.probe.line import typical
from backproof.probe.precision import Precision

_TINY = 1e-300
_KINK_Z = 0.4  # a kink needs this share of rough_z: its form averages more evaluations
_FEW = 0.1  # rough outputs fewer than this share of all say nothing about the whole


@dataclass
class Response:
    """The outputs along some ladders; every tensor is float64 or boolean (num_outputs,).

    Attributes:
        precision: the settings it was measured with.
        relative_step: of the shortest rung.
        scale: the larger of |y| and the change that a 100 % move of x would make.
        variance: of one evaluation, as the contrasts show it.
        usable: finite on every rung.
        moves: usable outputs that changed at all.
        rough: usable outputs without a straight or curved line through their rungs.
        kinked: usable outputs whose slopes from the two sides differ.
        crowd: measured variance over the prior's, for the middle output; at least 1.
        jag: the middle output's contrast over its slope.
    """

    precision: Precision
    relative_step: float
    scale: Tensor
    variance: Tensor
    usable: Tensor
    moves: Tensor
    rough: Tensor
    kinked: Tensor
    reach: Tensor
    crowd: float
    jag: float

    @property
    def aside(self) -> Tensor:
        """Usable outputs that have no derivative here to compare with."""
        return self.usable & (self.rough | self.kinked)

    @property
    def not_smooth(self) -> bool:
        """Whether so many outputs are rough or kinked that the rest says nothing."""
        rough, aside = self._share(self.rough & self.usable), self._share(self.aside)
        most = self.precision.aside
        return rough > most or aside > min(0.8, 1.5 * most)

    @property
    def smooth(self) -> Tensor:
        """The outputs to compare: usable, and not set aside unless all would be."""
        return self.usable if self.not_smooth else self.usable & ~self.aside

    @property
    def grain(self) -> float:
        """The eps of a type whose rounding would explain the noise that was seen."""
        return self.precision.eps * math.sqrt(self.crowd)

    @property
    def noise(self) -> Tensor:
        """Standard deviation of one evaluation of each output."""
        prior = self.precision.prior * self.precision.eps * self.scale
        return (self.variance + prior.square()).sqrt_()

    def weights(self) -> Tensor:
        """What to divide a cotangent by, so that each output weighs the same.

        An output noisier than its rounding counts for what its noise deserves, and one
        that hardly responds, being mostly rounding, for less.
        """
        p = self.precision
        seen = self.scale > 0
        scale = torch.where(seen, self.scale, typical(self.scale[self.smooth]))
        weight = torch.maximum(scale, self.variance.sqrt() / (4 * p.prior * p.eps))
        lively = self.reach / (self.relative_step * self.scale.clamp(min=_TINY))
        return weight / torch.where(seen, lively.clamp_(0.2, 1.0), 1.0)

    def _share(self, mask: Tensor) -> float:
        count = int(mask.sum())
        if count < _FEW * int(self.usable.sum()):
            return 0.0
        return count / max(1, int(self.moves.sum()))


def respond(
    ladders: Sequence[Ladder],
    base: Tensor,
    precision: Precision,
    *,
    relative_step: float,
    finite: Tensor,
    coarseness: Tensor | None = None,
    scatter: Tensor | None = None,
) -> Response:
    """Measure the outputs along `ladders`, which forget what is not finite.

    Args:
        ladders: all climbed from the same point.
        base: y(x), zero where it is not finite.
        precision: the settings that the ladders were climbed with.
        relative_step: of the shortest rung.
        finite: where y(x) is finite.
        coarseness: eps of each output's own type over `precision.eps`, at least 1.
        scatter: variance seen when the same call was repeated.
    """
    usable = finite.clone()
    for ladder in ladders:
        usable &= ladder.finite
    for ladder in ladders:
        ladder.keep(usable)
    reach = ladders[0].reach
    for ladder in ladders[1:]:
        reach = torch.maximum(reach, ladder.reach)
    scale = torch.maximum(base.abs(), reach / relative_step)
    if coarseness is not None:
        scale = scale.mul_(coarseness)
    moves = usable & (reach > 0)
    prior = precision.prior * precision.eps * scale

    shape = forms(ladders[0].ratio)
    contrasts = [_contrasts(ladder) for ladder in ladders]
    crowd, jag = 1.0, 0.0
    if bool(moves.any()):
        crowd, jag = _crowd(ladders, contrasts, prior, moves)
    allowed = prior * math.sqrt(crowd)

    rough, kinked = torch.zeros_like(usable), torch.zeros_like(usable)
    variance = torch.zeros_like(scale)
    for ladder, (odd, even, kink, slope) in zip(ladders, contrasts, strict=True):
        n = ladder.count
        limit = slope * precision.rough
        z = precision.rough_z
        odd_unit, even_unit = odd_gain(shape.odd, n), even_gain(shape.even, n)
        rough |= odd.abs() > torch.maximum(limit, allowed * (z * odd_unit))
        kink_unit = _KINK_Z * z * even_gain(shape.kink, n)
        kinked |= kink.abs() > torch.maximum(limit, allowed * kink_unit)
        variance += (odd / odd_unit).square_() + (even / even_unit).square_()
    variance /= 2 * len(ladders)
    # Four samples an output are too few to tell quiet outputs from lucky ones.
    variance = torch.maximum(variance, (crowd - 1) / crowd * allowed.square_())
    if scatter is not None:
        variance += scatter
    return Response(
        precision, relative_step, scale, variance, usable, moves, rough, kinked, reach,
        crowd, jag,
    )  # fmt: skip


def _contrasts(ladder: Ladder) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Odd and even contrast, half the kink, and the steepest slope, of each output."""
    shape = forms(ladder.ratio)
    even = torch.stack([shape.even, shape.kink]) @ ladder.even
    quotients = torch.stack([shape.odd, shape.first, shape.second, shape.third])
    odd = quotients @ ladder.odd
    return odd[0], even[0], even[1], odd[1:].abs_().amax(0)


def _crowd(
    ladders: Sequence[Ladder],
    contrasts: Sequence[tuple[Tensor, Tensor, Tensor, Tensor]],
    prior: Tensor,
    moves: Tensor,
) -> tuple[float, float]:
    square, jag = torch.zeros_like(prior), torch.zeros_like(prior)
    for ladder, (odd, _, _, slope) in zip(ladders, contrasts, strict=True):
        unit = odd_gain(forms(ladder.ratio).odd, ladder.count)
        square += (odd / unit).square_()
        jag = torch.maximum(jag, odd.abs() / slope.clamp(min=_TINY))
    square /= len(ladders)
    relative = (square / prior.square().clamp_(min=_TINY))[moves]
    return max(1.0, float(relative.median())), float(jag[moves].median())
