"""What the laws share about one subject on one case, measured once and kept."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from backproof.battery.agreement import Yardstick
from backproof.battery.inquiry import Inquiry, Kind
from backproof.battery.inquiry.backward_noise import pull_nudged
from backproof.battery.inquiry.base import Base, clean
from backproof.battery.inquiry.float64_stage import (
    wide_inquiry,
)
from backproof.battery.inquiry.look import relative
from backproof.battery.inquiry.stairs_apart import surrogates_apart
from backproof.battery.two_stages import Gradient, judge_gradient
from backproof.probe import stream
from backproof.trial import BackwardRaised, Refused, Trial
from backproof.trial.random_state import draws
from backproof.trial.raw_backward import RawReturn, raw_backward
from backproof.trial.surroundings import surroundings
from backproof.trial.vectors import Vector, balanced, minus, norm, overlap

Measured = TypeVar("Measured")


class Examination:
    """A trial and everything that more than one law asks about it."""

    def __init__(self, trial: Trial, *, seed: int = 0) -> None:
        self.trial, self.seed = trial, seed
        self.wide: Inquiry | None = None
        self.surroundings = surroundings()  # before the subject runs for the first time
        self._raised: BackwardRaised | None = None

    @functools.cached_property
    def inquiry(self) -> Inquiry:
        """The inquiry in the inputs' own types; raises what its first calls raise."""
        return self._once(lambda: Inquiry(self.trial, seed=self.seed))

    @property
    def wide_trial(self) -> Trial | None:
        """The trial in float64, where the subject has one and it was asked."""
        return self.wide.trial if self.wide is not None else None

    @property
    def base(self) -> Base:
        """Outputs and first gradient at the case's inputs."""
        return self.inquiry.base

    @functools.cached_property
    def yardstick(self) -> Yardstick:
        """What runs with the base's cotangent may differ by."""
        return Yardstick(self.trial, self.base.cotangent)

    @functools.cached_property
    def is_random(self) -> bool:
        """Whether forward draws random numbers. Costs 1 forward."""
        values = [p.values for p in self.trial.points]
        generators = (torch.Generator, np.random.RandomState, np.random.Generator)
        if any(isinstance(v, generators) for v in self.trial.leaves):
            return True
        return draws(lambda: self.trial.forward(values), self.trial.seed)

    @functools.cached_property
    def gradient(self) -> Gradient:
        """The float64 stage, where there is one, and the native stage after it."""
        return self._once(self._two_stages)

    def _two_stages(self) -> Gradient:
        self.wide = wide_inquiry(self.trial, self.inquiry, seed=self.seed)
        found = judge_gradient(self.inquiry, self.wide)
        if found.kind is not Kind.WRONG or found.precision_only:
            return found
        trial = self.trial if found.native is not None else self.wide_trial
        wrong = found.decided_by.wrong_inputs
        stairs = surrogates_apart(trial or self.trial, wrong, seed=self.seed)
        if not stairs:
            return found
        return dataclasses.replace(found, kind=Kind.STAIRCASE, stairs=stairs)

    def _once(self, measure: Callable[[], Measured]) -> Measured:
        """A backward that has raised is not called again."""
        if self._raised is not None:
            raise self._raised
        try:
            return measure()
        except BackwardRaised as error:
            self._raised = error
            raise

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
            widest=base.widest,
        )
        return base.cotangent, self.trial.represent(one_sign * base.shift)

    @functools.cached_property
    def raw(self) -> RawReturn | None:
        """What backward returns before the engine adapts it; None where it is hidden."""
        graph = self.base.graph
        if self.trial.single_use:
            graph = self.trial.record()
        return raw_backward(self.trial, graph, self.base.cotangent)

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
        own, wide = self.trial.calls, self.trial.wide_calls
        calls = {"forward": own.forward, "backward": own.backward}
        if wide.forward:
            calls["forward_float64"] = wide.forward
            calls["backward_float64"] = wide.backward
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
