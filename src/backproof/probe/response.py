"""What each output does along the lines: its scale, its noise, and where it is smooth.

The noise of an output is the larger of two: a prior, the rounding that its type cannot
avoid, and what the smoothness contrasts of its own ladder show. Noise that most outputs
share (an inner computation in a coarser type, a cancellation) shows as a factor on the
prior, the `crowd`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.probe.block import blocks
from backproof.probe.ladder import Ladder, forms
from backproof.probe.line import typical
from backproof.probe.precision import Precision

_TINY = 1e-300
_SAMPLE = 4096  # outputs that a median is taken over
_KINK_Z = 0.4  # a kink needs this share of rough_z: its form averages more evaluations
_FEW = 0.1  # rough outputs fewer than this share of all say nothing about the whole


@dataclass
class Response:
    """The outputs along some ladders; every tensor is float64 or boolean (num_outputs,).

    Attributes:
        precision: the settings it was measured with.
        relative_step: of the shortest rung.
        scale: the larger of |y| and the change that a 100 % move of x would make.
        variance: of one evaluation: what the contrasts show, or the rounding that no
            type avoids, whichever is larger.
        usable: finite on every rung.
        moves: usable outputs that changed at all.
        rough: usable outputs without a straight or curved line through their rungs.
        kinked: usable outputs whose slopes from the two sides differ.
        crowd: measured variance over the prior's, for the middle output of the noisiest
            tensor; at least 1.
        jag: the middle output's contrast over its slope, in the roughest tensor.
        groups: the outputs of each tensor.
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
    groups: tuple[slice, ...]

    @functools.cached_property
    def aside(self) -> Tensor:
        """Usable outputs that have no derivative here to compare with."""
        return self.usable & (self.rough | self.kinked)

    @functools.cached_property
    def not_smooth(self) -> bool:
        """Whether so many outputs are rough or kinked that the rest says nothing."""
        rough, aside = self._share(self.rough & self.usable), self._share(self.aside)
        most = self.precision.aside
        return rough > most or aside > min(0.8, 1.5 * most)

    @functools.cached_property
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
        return self.variance.sqrt()

    def weights(self) -> Tensor:
        """What to divide a cotangent by, so that each output weighs the same.

        An output noisier than its rounding counts for what its noise deserves, and one
        that hardly responds, being mostly rounding, for less.
        """
        p = self.precision
        middle = typical(self.scale, self.smooth)
        weights = torch.empty_like(self.scale)
        for part in blocks(weights.numel()):
            scale = self.scale[part]
            lively = self.reach[part] / (self.relative_step * scale).clamp_(min=_TINY)
            noisy = self.variance[part].sqrt().div_(4 * p.prior * p.eps)
            lively.clamp_(p.lively, 1.0)
            if float(scale.min()) == 0:
                lively = torch.where(scale > 0, lively, 1.0)
                scale = torch.where(scale > 0, scale, middle)
            torch.div(torch.maximum(scale, noisy), lively, out=weights[part])
        return weights

    def _share(self, mask: Tensor) -> float:
        count = int(torch.count_nonzero(mask))
        if count < _FEW * int(torch.count_nonzero(self.usable)):
            return 0.0
        return count / max(1, int(torch.count_nonzero(self.moves)))


def respond(
    ladders: Sequence[Ladder],
    base: Tensor,
    precision: Precision,
    *,
    relative_step: float,
    finite: Tensor,
    floor: Tensor | None = None,
    groups: Sequence[slice] | None = None,
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
        floor: a size for each output whose rounding is noise to it as well; none by
            default.
        groups: outputs that share their noise: those of one tensor. All by default.
        coarseness: eps of each output's own type over `precision.eps`, at least 1.
        scatter: variance seen when the same call was repeated.
    """
    usable, reach = finite.clone(), _reach(ladders, base.numel())
    usable &= reach < math.inf
    if not bool(usable.all()):
        reach.masked_fill_(~usable, 0.0)
        for ladder in ladders:
            ladder.keep(usable)
    moves = reach > 0
    floor = torch.zeros_like(base) if floor is None else floor
    groups = (slice(0, base.numel()),) if groups is None else groups
    measure = _Measure(
        ladders, base, reach, precision, relative_step, floor, coarseness
    )
    scale, variance = torch.empty_like(base), torch.empty_like(base)
    rough, kinked = torch.empty_like(usable), torch.empty_like(usable)
    crowds, jags = [], []
    for group in groups:
        crowd, jag = measure.crowd(_sample(moves, group))
        crowds.append(crowd)
        jags.append(jag)
        for within in blocks(group.stop - group.start):
            part = slice(group.start + within.start, group.start + within.stop)
            found = measure.at(part, crowd)
            scale[part], variance[part], rough[part], kinked[part] = found
    if scatter is not None:
        variance += scatter
    return Response(
        precision, relative_step, scale, variance, usable, moves, rough, kinked, reach,
        max(crowds), max(jags), tuple(groups),
    )  # fmt: skip


def _reach(ladders: Sequence[Ladder], size: int) -> Tensor:
    """The largest reach over the ladders; not finite where a rung was not."""
    out = torch.empty(size, dtype=torch.float64, device="cpu")
    for part in blocks(size):
        reach = ladders[0].reach(part)
        for ladder in ladders[1:]:
            reach = torch.maximum(reach, ladder.reach(part))
        out[part] = reach
    return out


def _sample(moves: Tensor, group: slice) -> Tensor:
    """Some thousand outputs of the group that move, evenly spread; all where few do."""
    mine = moves[group]
    stride = max(1, mine.numel() // _SAMPLE)
    some = mine[::stride].nonzero().reshape(-1) * stride
    if stride > 1 and some.numel() <= _SAMPLE // 8:
        live = mine.nonzero().reshape(-1)
        some = live[:: max(1, live.numel() // _SAMPLE)]
    chosen: Tensor = some + group.start
    return chosen


@dataclass(frozen=True)
class _Measure:
    """The statistics of some of the outputs, for a slice or an index of them."""

    ladders: Sequence[Ladder]
    base: Tensor
    reach: Tensor
    precision: Precision
    relative_step: float
    floor: Tensor
    coarseness: Tensor | None

    def crowd(self, sample: Tensor) -> tuple[float, float]:
        """(variance over the prior's, contrast over slope) of the middle output."""
        if not sample.numel():
            return 1.0, 0.0
        prior = self._prior(self._scale(sample), sample)
        square, jag = torch.zeros_like(prior), torch.zeros_like(prior)
        for ladder in self.ladders:
            odd, _, _, slope = _contrasts(ladder, sample)
            unit = forms(ladder.ratio).odd.gain(ladder.count)
            jag = torch.maximum(jag, odd.abs() / slope.clamp(min=_TINY))
            square += (odd / unit).square_()
        square /= len(self.ladders)
        relative = square / prior.square_().clamp_(min=_TINY)
        return max(1.0, float(relative.median())), float(jag.median())

    def at(self, part: slice, crowd: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(scale, variance, rough, kinked)."""
        p = self.precision
        scale = self._scale(part)
        prior = self._prior(scale, part)
        allowed = prior * math.sqrt(crowd)
        variance = torch.zeros_like(scale)
        rough = torch.zeros_like(scale, dtype=torch.bool)
        kinked = torch.zeros_like(rough)
        for ladder in self.ladders:
            n, shape = ladder.count, forms(ladder.ratio)
            odd, even, kink, slope = _contrasts(ladder, part)
            limit = slope.mul_(p.rough)
            odd_unit, even_unit = shape.odd.gain(n), shape.even.gain(n)
            kink_unit = _KINK_Z * shape.kink.gain(n)
            rough |= odd.abs() > torch.maximum(limit, allowed * (p.rough_z * odd_unit))
            bends = kink.abs() > torch.maximum(limit, allowed * (p.rough_z * kink_unit))
            kinked |= bends
            variance += odd.div_(odd_unit).square_()
            if bool(bends.any()):
                even.masked_fill_(bends, 0.0)  # there it shows the kink, not noise
            variance += even.div_(even_unit).square_()
        variance /= 2 * len(self.ladders)
        # Four samples an output are too few to tell quiet outputs from lucky ones, and
        # one much smaller than its neighbours carries the rounding of their size.
        least = allowed.square_().mul_((crowd - 1) / crowd).add_(prior.square_())
        return scale, torch.maximum(variance, least), rough, kinked

    def _scale(self, part: slice | Tensor) -> Tensor:
        scale = torch.maximum(
            self.base[part].abs(), self.reach[part] / self.relative_step
        )
        return scale if self.coarseness is None else scale.mul_(self.coarseness[part])

    def _prior(self, scale: Tensor, part: slice | Tensor) -> Tensor:
        own = torch.maximum(scale, self.floor[part])
        return own.mul_(self.precision.prior * self.precision.eps)


def _contrasts(
    ladder: Ladder, part: slice | Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Odd and even contrast, half the kink, and the steepest slope, of each output."""
    odd, even, kink, *slopes = _stacked(ladder.ratio) @ ladder.moved[:, part]
    slope = slopes[0].abs_()
    for other in slopes[1:]:
        torch.maximum(slope, other.abs_(), out=slope)
    return odd, even, kink, slope


@functools.lru_cache
def _stacked(ratio: int) -> Tensor:
    shape = forms(ratio)
    asked = (shape.odd, shape.even, shape.kink, shape.first, shape.second, shape.third)
    return torch.stack([form.weights for form in asked])
