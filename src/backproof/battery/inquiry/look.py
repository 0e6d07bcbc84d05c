"""One look: claim and truth side by side, at one size of step.

A look climbs one ladder along the signs of the gradient and one along random signs,
chooses two cotangents by what each output showed (one of random signs, one of a single
sign, as a sum loss sends), and compares all four pairs. A dense error shows sqrt(n)
better along the gradient's own signs than along any random direction, and a sparse one
cannot hide from magnitudes that are bounded below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from backproof.battery.inquiry.backward_noise import backward_noise
from backproof.battery.inquiry.base import Base, clean
from backproof.probe import (
    Estimate,
    Ladder,
    Precision,
    Response,
    Slope,
    climb,
    direction,
    is_finite,
    respond,
    slopes,
    stream,
)
from backproof.trial import Graph, Trial
from backproof.trial.vectors import Vector, along, balanced, overlap

_AVERAGED = 2**16  # elements above which a 16-bit tensor averages enough by itself
_NARROWER = 2.0**-8  # on a cotangent whose gradient leaves its type's range
_DUSTY = 0.02  # of the gradient: more, and it is its own rounding
_DUST = 1e3  # of eps, beside the natural slope
_KINK_SLACK = 1.2  # on half the gap between the one-sided slopes
_COARSE = 1e-4  # types coarser than this cannot tell roughness from noise

Lines = list[list[Tensor | None]]


class OutsideDomain(Exception):
    """No output is finite near the case at this size of step."""


class Sight(Enum):
    """What one look says."""

    PASS = "pass"
    WRONG = "wrong"
    STILL = "still"
    NOT_SMOOTH = "not smooth"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Comparison:
    """Claim against truth along one line for one cotangent, per smallest step.

    Attributes:
        claim: <backward(u), d>, with its bar.
        truth: d/dt <u, y(x + t d)>, with its bar.
        kink: half the gap between the one-sided slopes; a claim may lie between them.
        has_kink: whether that gap is more than noise.
        size: of the derivative, free of luck with signs: what an error is relative to.
        natural: the derivative of a function that changes by 100 % when its input does.
        null: what a gradient of nothing but rounding is to be resolved to.
        is_dust: whether the claim is that: zero, or as large as its own rounding.
        dust: one below this is what cancellation leaves of nothing.
        enough: the resolution that a pass needs.
        margin: on the bar, where its noise is not as random as it assumes.
        relative_step: of the shortest rung, to compare looks with one another.
    """

    claim: Estimate
    truth: Estimate
    kink: float
    has_kink: bool
    size: float
    natural: float
    null: float
    is_dust: bool
    dust: float
    enough: float
    margin: float
    relative_step: float

    @property
    def error(self) -> float:
        """Truth minus claim."""
        return self.truth.value - self.claim.value

    @property
    def bar(self) -> float:
        """Both bars together."""
        return self.truth.error + self.claim.error

    def per_unit(self, side: Estimate) -> Estimate:
        """One of the sides for a move of 100 % of the inputs' own size."""
        unit = self.relative_step
        return Estimate(side.value / unit, side.error / unit)

    @property
    def rejects(self) -> bool:
        """Whether the bars fail to touch; so does a claim that is not finite.

        Two sides that are both dust beside the natural slope are both zero.
        """
        if max(abs(self.claim.value), abs(self.truth.value)) <= self.dust:
            return False
        reach = self.margin * self.bar + _KINK_SLACK * abs(self.kink)
        return not abs(self.error) <= reach

    @property
    def excess(self) -> float:
        """How far the error reaches beyond the bars, per unit of relative step."""
        return (abs(self.error) - self.bar) / self.relative_step

    @property
    def resolution(self) -> float:
        """The relative error of the gradient that would have been seen.

        A gradient that is nothing but backward's own rounding is zero, and needs no
        digits beyond a share of the natural slope; any other needs its own.
        """
        kink = abs(self.kink) if self.has_kink else 0.0
        size = max(self.size, self.null) if self.is_dust else self.size
        return relative(self.bar + _KINK_SLACK * kink, size)


def would_have_seen(other: Comparison, accuser: Comparison) -> bool:
    """Whether `other`, at another step, is fine enough for the error of `accuser`."""
    bar = (other.bar + _KINK_SLACK * abs(other.kink)) / other.relative_step
    return accuser.rejects and accuser.excess > 2 * bar


def same_error(a: Comparison, b: Comparison) -> bool:
    """Whether both reject, by about the same error per unit step.

    A fault is the same at every step, within a factor of 3 and the bars; truncation
    grows as the square of the step, and jumps are erratic.
    """
    if not (a.rejects and b.rejects) or a.error * b.error <= 0:
        return False
    low, high = sorted(abs(c.error) / c.relative_step for c in (a, b))
    return high - a.bar / a.relative_step - b.bar / b.relative_step <= 3 * low


def relative(bar: float, size: float) -> float:
    """bar over size; 0 where both are zero."""
    if size > 0:
        return bar / size
    return 0.0 if bar == 0 else float("inf")


@dataclass
class Look:
    """What was seen at one size of step; `comparisons` line by line, cotangents inner."""

    factor: float
    ladders: list[Ladder]
    response: Response
    cotangents: list[Tensor]
    gradients: list[list[Tensor | None]]
    comparisons: list[Comparison]

    @property
    def precision(self) -> Precision:
        """The settings it was made with."""
        return self.response.precision

    @property
    def rejections(self) -> list[Comparison]:
        """The comparisons whose bars do not touch."""
        return [c for c in self.comparisons if c.rejects]

    @property
    def resolution(self) -> float:
        """The best that any comparison reached."""
        return min(c.resolution for c in self.comparisons)

    @property
    def limited_by_step(self) -> bool:
        """Whether truncation, not noise, made the bar of the best comparison."""
        best = min(self.comparisons, key=lambda c: c.resolution)
        return best.truth.truncation > best.truth.noise

    @property
    def jagged(self) -> bool:
        """Whether the middle output is not straight at this step."""
        return self.response.jag > self.precision.rough

    @property
    def sight(self) -> Sight:
        """What this look alone says."""
        response, bad = self.response, self.rejections
        if bad:
            if not bool(response.reach[response.smooth].any()):
                return Sight.STILL
            unclear = response.not_smooth or (
                self.jagged and self.precision.eps > _COARSE
            )
            kinks = all(abs(c.error) <= 1.5 * abs(c.kink) + c.bar for c in bad)
            return Sight.NOT_SMOOTH if unclear or kinks else Sight.WRONG
        if response.not_smooth:
            return Sight.NOT_SMOOTH
        nothing = all(c.size == 0 for c in self.comparisons)
        if nothing or self.resolution <= self.precision.resolution:
            return Sight.PASS
        return Sight.NOT_SMOOTH if self.jagged else Sight.UNDECIDED


class Observer:
    """Makes looks at one trial with the same signs and cotangents at every step size."""

    def __init__(self, trial: Trial, base: Base, seed: int) -> None:
        self.trial, self.base, self.seed = trial, base, seed
        self.scatter: Tensor | None = None
        self.backward_noise: list[Tensor | None] | None = None
        self._backward_change: Vector | None = None
        self._noise_measured = False
        self._first: list[Tensor] | None = None
        self._pulled = [(base.cotangent, base.gradient)]

    @property
    def graph(self) -> Graph:
        """Forward's record at the case."""
        return self.base.graph

    @property
    def values(self) -> Tensor:
        """Outputs at the case, zero where not finite, float64 (num_outputs,)."""
        return self.base.values

    @property
    def frozen(self) -> Sequence[Tensor | None]:
        """Elements of each input that may not be moved."""
        return self.base.frozen

    def lines(self, precision: Precision, factor: float) -> list[Lines]:
        """Two directions; in 16 bits several lines each, to be summed."""
        repeats = self._repeats(precision)
        signs = [
            # A gradient of zero has no signs; many functions answer to scaling.
            g if g is not None and bool(g.any()) else p.values
            for g, p in zip(clean(self.base.gradient), self.trial.points, strict=True)
        ]
        out: list[Lines] = []
        for k in range(2):
            first = self._line(precision, factor, 10 * k, signs if k == 0 else None)
            more = [
                self._line(precision, factor, 10 * k + r, first)
                for r in range(1, repeats)
            ]
            out.append([first, *more])
        return out

    def look(
        self,
        precision: Precision | None = None,
        factor: float = 1.0,
        which: Sequence[int] = (0, 1),
    ) -> Look:
        """A look along both lines, or along those in `which`: 6 forwards a line.

        Raises:
            OutsideDomain: no output is finite at this size of step.
            Refused: forward raised.
        """
        precision = precision or self.base.precision
        lines = self.lines(precision, factor)
        ladders = self.climb([lines[k] for k in which], precision)
        response = self.respond(ladders, precision, factor)
        smooth = response.smooth
        cotangents = self._cotangents(response, smooth)
        gradients = [self.gradient(u) for u in cotangents]
        if not self._noise_measured:
            self._measure_backward_noise(cotangents[0], gradients[0])
        return Look(
            factor,
            ladders,
            response,
            cotangents,
            gradients,
            self.compare(ladders, response, cotangents, gradients),
        )

    def climb(self, lines: Sequence[Lines], precision: Precision) -> list[Ladder]:
        """One ladder for each group of lines."""
        trial, values = self.trial, self.base.values
        return [
            climb(trial.forward, trial.points, values, group, precision.ratio)
            for group in lines
        ]

    def respond(
        self, ladders: Sequence[Ladder], precision: Precision, factor: float
    ) -> Response:
        """How each output behaves along the ladders."""
        response = respond(
            ladders,
            self.base.values,
            precision,
            relative_step=precision.step * factor,
            finite=self.base.finite,
            floor=self.base.floor,
            groups=self.base.groups,
            coarseness=self.trial.coarseness(precision.eps),
            scatter=self.scatter,
        )
        if not bool(response.usable.any()):
            raise OutsideDomain
        return response

    def compare(
        self,
        ladders: Sequence[Ladder],
        response: Response,
        cotangents: Sequence[Tensor],
        gradients: Sequence[Vector],
        *,
        at_kinks: bool = False,
    ) -> list[Comparison]:
        """Every ladder against every cotangent.

        `at_kinks` leaves backward's noise out: a nudge there shows another subgradient.
        """
        noise = None if at_kinks else self.backward_noise
        return [
            self._comparison(ladder, response, slope, gradient, noise)
            for ladder, row in zip(
                ladders, slopes(ladders, response, cotangents), strict=True
            )
            for slope, gradient in zip(row, gradients, strict=True)
        ]

    # ------------------------------------------------------------------ the parts

    def _repeats(self, precision: Precision) -> int:
        elements = self.base.values.numel() + sum(
            p.values.numel() for p in self.trial.points
        )
        return max(1, min(precision.repeats, _AVERAGED // max(1, elements)))

    def _line(
        self,
        precision: Precision,
        factor: float,
        number: int,
        signs: Sequence[Tensor | None] | None,
    ) -> list[Tensor | None]:
        return [
            direction(
                point,
                precision,
                stream(self.seed, number, k),
                factor=factor,
                signs_of=None if signs is None else signs[k],
                frozen=self.base.frozen[k],
            )
            for k, point in enumerate(self.trial.points)
        ]

    def _cotangents(self, response: Response, smooth: Tensor) -> list[Tensor]:
        """The first look chooses them; later ones only leave outputs out."""
        if self._first is not None:
            if bool(smooth.all()):
                return self._first
            return [torch.where(smooth, u, 0.0) for u in self._first]
        base, trial = self.base, self.trial
        weights = response.weights()
        signed = torch.copysign(weights, base.cotangent)
        drawn = balanced(
            weights,
            smooth,
            signed.sign_(),
            stream(self.seed, 500),
            widest=base.widest,
        )
        first = trial.represent(drawn.mul_(base.shift))
        if not self._in_range(first):
            first = trial.represent(first * _NARROWER)
        self._first = [first, first.abs()]
        return self._first

    def _in_range(self, cotangent: Tensor) -> bool:
        """Whether no gradient leaves its type's range that did not before."""
        return all(
            g is None or is_finite(g if mask is None else g.masked_fill(mask, 0.0))
            for g, mask in zip(self.pulled(cotangent), self.base.frozen, strict=True)
        )

    def gradient(self, cotangent: Tensor) -> list[Tensor | None]:
        """Backward of `cotangent` (num_outputs,), zero where it is not finite."""
        return clean(self.pulled(cotangent))

    def pulled(self, cotangent: Tensor) -> list[Tensor | None]:
        """Backward of `cotangent` as it came, called once for each."""
        for known, gradient in self._pulled:
            if known is cotangent or torch.equal(known, cotangent):
                return gradient
        gradient = self.trial.pull(self.base.graph, cotangent)
        self._pulled.append((cotangent, gradient))
        return gradient

    def _measure_backward_noise(self, cotangent: Tensor, gradient: Vector) -> None:
        self._noise_measured = True
        found = backward_noise(self.trial, self.base, cotangent, gradient)
        if found is not None:
            self._backward_change = found.change
            self.backward_noise = found.change if found.is_rounding else None

    def _comparison(
        self,
        ladder: Ladder,
        response: Response,
        slope: Slope,
        gradient: Vector,
        noise: Vector | None,
    ) -> Comparison:
        p, steps = response.precision, ladder.steps
        value, size = along(gradient, steps)
        bar = p.bias * p.eps * (abs(value) + size)
        is_dust = size == 0
        if not is_dust and self._backward_change is not None:
            is_dust = overlap(self._backward_change, steps) > _DUSTY * size
        if noise is not None:
            coherent, independent = along(noise, steps)
            bar += max(p.z / 2 * independent, 2 * abs(coherent))
        return Comparison(
            claim=Estimate(value, bar),
            truth=slope.estimate,
            kink=slope.kink,
            has_kink=slope.has_kink,
            size=max(abs(value), size, abs(slope.estimate.value)),
            natural=slope.natural,
            null=p.null * slope.natural,
            is_dust=is_dust,
            dust=min(_DUST * p.eps, p.null / 10) * slope.natural,
            enough=p.resolution,
            margin=p.margin,
            relative_step=response.relative_step,
        )
