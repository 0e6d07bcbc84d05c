"""What the laws share about one subject on one case, measured once and kept."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from backproof.battery.inquiry import Conclusion, Inquiry, Kind
from backproof.battery.inquiry.backward_noise import pull_nudged
from backproof.battery.inquiry.base import Base, clean
from backproof.battery.inquiry.float64_stage import (
    departure,
    steps_fit,
    wide_inquiry,
    witness,
)
from backproof.battery.inquiry.look import Comparison, relative
from backproof.battery.inquiry.vectors import Vector, balanced, minus, norm, overlap
from backproof.battery.trial import BackwardRaised, Refused, Trial
from backproof.battery.trial.raw_backward import RawReturn, raw_backward
from backproof.probe import PRECISIONS, stream

Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Gradient:
    """The conclusion about the gradient over both stages.

    Attributes:
        kind: of the stage that decided.
        decided_by: the conclusion it rests on.
        native: in the types of the inputs; None where the float64 stage convicted.
        wide: in float64, None where the subject has no other float64 than its own.
        departure: relative distance of the native gradient from float64's, where it
            was needed to decide.
        witnessed: inputs too weak to be seen in their own type, whose gradient is that of
            float64 but for this relative distance.
        precision_only: wrong in the inputs' own types and right in float64, or wrong by
            no more than a coarser type's rounding.
    """

    kind: Kind
    decided_by: Conclusion
    native: Conclusion | None = None
    wide: Conclusion | None = None
    departure: float | None = None
    witnessed: Mapping[str, float] = field(default_factory=dict)
    precision_only: bool = False


class Examination:
    """A trial and everything that more than one law asks about it."""

    def __init__(self, trial: Trial, *, seed: int = 0) -> None:
        self.trial, self.seed = trial, seed
        self.wide_trial: Trial | None = None
        self._raised: BackwardRaised | None = None

    @functools.cached_property
    def inquiry(self) -> Inquiry:
        """The inquiry in the inputs' own types; raises what its first calls raise."""
        return self._once(lambda: Inquiry(self.trial, seed=self.seed))

    @property
    def base(self) -> Base:
        """Outputs and first gradient at the case's inputs."""
        return self.inquiry.base

    @functools.cached_property
    def gradient(self) -> Gradient:
        """The float64 stage, where there is one, and the native stage after it."""
        return self._once(self._gradient)

    def _once(self, measure: Callable[[], Measured]) -> Measured:
        """A backward that has raised is not called again."""
        if self._raised is not None:
            raise self._raised
        try:
            return measure()
        except BackwardRaised as error:
            self._raised = error
            raise

    def _gradient(self) -> Gradient:
        inquiry = self.inquiry
        wide = wide_inquiry(self.trial, inquiry, seed=self.seed)
        if wide is None:
            native = inquiry.conclude()
            return Gradient(
                native.kind,
                native,
                native,
                precision_only=_within_coarser_type(native, inquiry),
            )
        self.wide_trial = wide.trial
        formula = wide.conclude()
        minor = _within_coarser_type(formula, wide)  # below the inputs' own digits
        if formula.kind in (Kind.WRONG, Kind.STAIRCASE) and not minor:
            return Gradient(formula.kind, formula, wide=formula)
        native = inquiry.conclude()
        if native.kind is Kind.RIGHT:
            seen = formula.kind in (Kind.RIGHT, Kind.KINK)
            witnessed = witness(inquiry, wide, native) if seen else {}
            return Gradient(native.kind, native, native, formula, witnessed=witnessed)
        distance, explained = departure(inquiry, wide, native)
        if explained and formula.kind in (Kind.RIGHT, Kind.KINK):
            return Gradient(Kind.RIGHT, formula, native, formula, distance)
        if explained and native.kind is Kind.WRONG:
            # The same gradient, at values that float64 could not decide.
            return Gradient(formula.kind, formula, native, formula, distance)
        if native.kind is Kind.WRONG and formula.kind is not Kind.RIGHT:
            if not inquiry.base.precision.decades:
                # What float64 could not decide, 16 bits cannot either.
                return Gradient(formula.kind, formula, native, formula, distance)
            return Gradient(native.kind, native, native, formula, distance)
        if formula.kind is not Kind.RIGHT or native.look is None:
            return Gradient(native.kind, native, native, formula, distance)
        if native.kind is Kind.STAIRCASE or not steps_fit(inquiry, wide, native.look):
            words = (
                "the inputs' own type is too coarse for this function: float64 itself "
                "does not find its derivative with the steps that it resolves"
            )
            unsure = dataclasses.replace(native, kind=Kind.UNDECIDED, words=words)
            return Gradient(Kind.UNDECIDED, unsure, native, formula, distance)
        return Gradient(
            native.kind,
            native,
            native,
            formula,
            distance,
            precision_only=native.kind is Kind.WRONG,
        )

    @functools.cached_property
    def cotangents(self) -> tuple[Tensor, Tensor]:
        """Two cotangents (num_outputs,): of random signs, and all of one sign."""
        if not self.trial.subject.declared:
            _ = self.gradient  # whose cotangents need no backward of their own
        looks = self.inquiry.looks
        if looks:
            first, second = looks[0].cotangents
            return first, second
        base = self.base
        weights = base.values.abs().clamp(min=1e-3)
        one_sign = balanced(
            weights,
            base.finite,
            torch.ones_like(weights),
            stream(self.seed, 300),
            float16=base.float16,
        )
        return base.cotangent, self.trial.represent(one_sign * base.shift)

    @functools.cached_property
    def raw(self) -> RawReturn | None:
        """What backward returns before the engine adapts it; None where it is hidden."""
        return raw_backward(self.trial, self.base.graph, self.base.cotangent)

    def pull(self, cotangent: Tensor) -> list[Tensor | None]:
        """Backward of a cotangent at the case's inputs, called once for each."""
        return self.inquiry.observer.pulled(cotangent)

    @functools.cached_property
    def conditioning(self) -> float:
        """Relative change of the gradient when inputs move in their last place.

        What a correct backward cannot help, and a coarser type inside does not show.
        Costs 1 forward and 1 backward, and is asked only before an accusation.
        """
        looks = self.inquiry.looks
        cotangent = looks[-1].cotangents[0] if looks else self.base.cotangent
        try:
            nudged = pull_nudged(self.trial, cotangent)
        except (Refused, BackwardRaised):
            return 0.0
        change = minus(clean(nudged), self.inquiry.observer.gradient(cotangent))
        gap, size, _ = self.sizes(change, self.inquiry.observer.gradient(cotangent))
        return relative(gap, size)

    def sizes(self, *vectors: Vector) -> tuple[float, float, float]:
        """(size of the first, largest size of the others, natural size).

        Sizes are those of derivatives along the line of the last look, so that inputs
        of different scales count alike; plain norms where there was no look.
        """
        looks = self.inquiry.looks
        if not looks:
            first, *others = (norm(v) for v in vectors)
            return first, max(others, default=0.0), 0.0
        look = looks[-1]
        first, *others = (overlap(v, look.ladders[0].steps) for v in vectors)
        return first, max(others, default=0.0), max(c.natural for c in look.comparisons)

    @property
    def num_calls(self) -> dict[str, int]:
        """Forward and backward calls so far; those of the float64 stage apart."""
        calls = {"forward": self.trial.num_forward, "backward": self.trial.num_backward}
        if self.wide_trial is not None:
            calls["forward_float64"] = self.wide_trial.num_forward
            calls["backward_float64"] = self.wide_trial.num_backward
        return calls

    def backward_raised(self) -> BackwardRaised | None:
        """The exception of the first backward, None where it went through."""
        try:
            _ = self.base
        except BackwardRaised as error:
            return error
        return None

    @property
    def concluded(self) -> Gradient | None:
        """The conclusion about the gradient, None where backward raised on the way."""
        try:
            return self.gradient
        except BackwardRaised:
            return None


def _within_coarser_type(conclusion: Conclusion, inquiry: Inquiry) -> bool:
    """Whether a wrong gradient is right to about the digits of the next coarser type."""
    if conclusion.kind is not Kind.WRONG or conclusion.worst is None:
        return False
    own = inquiry.base.precision.eps
    coarser = [p.eps for p in PRECISIONS.values() if p.eps > 2**10 * own]
    if not coarser or conclusion.look is None:
        return False
    every = [*conclusion.look.comparisons, *_apart(conclusion)]
    # Relative to its own size: a weak input is no rounding error of a strong one.
    sizes = [abs(c.error) / max(c.size, 1e-300) for c in every]
    return bool(max(sizes) <= 4 * min(coarser))


def _apart(conclusion: Conclusion) -> list[Comparison]:
    """The comparisons of single inputs and of outputs at kinks."""
    kinks = conclusion.kinks.comparisons if conclusion.kinks else []
    return [*(view.comparison for view in conclusion.inputs.values()), *kinks]
