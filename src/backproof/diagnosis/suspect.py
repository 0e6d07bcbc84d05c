"""One input whose gradient is wrong: what it claims, and what may be asked about it."""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from backproof.diagnosis.charge import Charge
from backproof.diagnosis.known import Known
from backproof.diagnosis.region import Field
from backproof.diagnosis.witness import Witness, along_lines, pointwise
from backproof.probe import (
    Estimate,
    Ladder,
    Response,
    direction,
    move,
    signs,
    slopes,
    stream,
)
from backproof.probe.ladder import forms
from backproof.trial import Calls, Input, Output

_KINK_SLACK = 1.2  # as the referee has it, on half the gap of one-sided slopes
_SAFE = 4.0  # a part of a line may bend more than the whole of it did
_AVERAGED = 2**14  # elements above which a 16-bit tensor averages enough by itself
_SINGLE = 2.0  # on the noise of a single element, which nothing averages
_OTHER = (
    0.625  # of the size of the charge's cotangents: a single one may share their sign
)
_MOST_WORK = 40_000_000  # elements that are gone through for one cause
_FEWEST_TRIES = 40
_MOST_PULLS = 80  # backward calls that one cause may make


class Spent(Exception):
    """The forwards that a diagnosis may take are used up."""


@dataclass
class Budget:
    """Forward calls that a diagnosis may make, over all inputs.

    Attributes:
        calls: of the trial, as it counts them.
        most: how many more it may become.
    """

    calls: Calls
    most: int
    start: int = field(init=False)

    def __post_init__(self) -> None:
        self.start = self.calls.forward

    @property
    def spent(self) -> int:
        """Forward calls so far."""
        return self.calls.forward - self.start

    def need(self, forwards: int) -> None:
        """Raise `Spent` unless so many may still be made."""
        if self.spent + forwards > self.most:
            raise Spent


@dataclass(frozen=True)
class Line:
    """Forward along one direction that moves a part of one input.

    Attributes:
        steps: the smallest step, float64 (n,), zero where nothing moves.
        slopes: of each output, per smallest step, float64 (num_outputs,).
        noise: standard deviation of each slope.
        bend: how much each slope may be off for the length of the step.
    """

    steps: Tensor
    slopes: Tensor
    noise: Tensor
    bend: Tensor


class Suspect:
    """The gradient of one input, the claims about it, and experiments with it.

    Attributes:
        charge: what it is suspected for.
        budget: of forward calls.
        cotangents: for which claims are known, float64 (num_outputs,) each.
        claims: backward of each of them, float64 (n,); zeros where it is None.
        known: the tensors and numbers of the call.
        pulls: backward calls that the cause which is being asked has made.
        mask: the elements that are looked at, boolean (n,).
        witness: what is known of the true gradient there.
    """

    def __init__(self, charge: Charge, budget: Budget, known: Known) -> None:
        self.charge, self.budget, self.known = charge, budget, known
        self.trial, self.referee = charge.referee.trial, charge.referee
        self.index = charge.index
        self.pulls = 0
        self._single: dict[tuple[int, int], Line] = {}  # lines of one element, kept
        self._prepare()
        self.mask = torch.ones_like(self.claims[0], dtype=torch.bool)
        self.witness = self.witness_for(self.cotangents)

    def beside_claims(self) -> Suspect:
        """The part of the truth that the claims lack, as if nothing were claimed."""
        other = copy.copy(self)
        other.witness = self.witness.minus(self.claims)
        other.claims = [torch.zeros_like(claim) for claim in self.claims]
        return other

    def seen_at(self, mask: Tensor, witness: Witness) -> Suspect:
        """The same suspect, looked at in `mask` (n,) alone, with equations for that."""
        other = copy.copy(self)
        other.mask, other.witness = mask, witness
        return other

    @property
    def power(self) -> float:
        """How clearly the claims are refuted, in bars: what evidence there is to fit."""
        return self.witness.power(self.claims)

    @property
    def truth_is_zero(self) -> bool:
        """Whether forward does not depend on the elements that are looked at."""
        zero = [torch.zeros_like(claim) for claim in self.claims]
        return self.witness.fit(zero).explains

    @property
    def most_tries(self) -> int:
        """How many gradients of this size are worth fitting, for one cause."""
        return max(_FEWEST_TRIES, _MOST_WORK // max(1, self.values.numel()))

    # ------------------------------------------------------------------ what it is

    @property
    def input(self) -> Input:
        """The input itself."""
        return self.trial.inputs[self.index]

    @property
    def name(self) -> str:
        """What the user calls it."""
        return self.input.name

    @property
    def outputs(self) -> Sequence[Output]:
        """The outputs of the call."""
        return self.trial.outputs

    @functools.cached_property
    def cotangent_name(self) -> str:
        """What backward calls its first cotangent, `g` where that is unknown."""
        definition = self.trial.subject.definition
        try:
            names = list(inspect.signature(definition.backward).parameters)  # type: ignore[union-attr]
        except (AttributeError, TypeError, ValueError):
            return "g"
        return names[1] if len(names) > 1 else "g"

    @property
    def is_complex(self) -> bool:
        """Whether its elements are pairs of reals."""
        return self.input.original.is_complex()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input as the user has it."""
        return tuple(self.input.original.shape)

    @property
    def values(self) -> Tensor:
        """Of the input, float64 (n,)."""
        return self.input.point.values

    def elements(self, mask: Tensor) -> Tensor:
        """A mask over real numbers (n,) as one over the input's elements, in its shape."""
        if self.is_complex:
            return mask.reshape(*self.shape, 2).any(-1)
        return mask.reshape(self.shape)

    def flat(self, mask: Tensor) -> Tensor:
        """The inverse: a mask in the input's shape as one over real numbers (n,)."""
        if self.is_complex:
            mask = mask.unsqueeze(-1).expand(*self.shape, 2)
        return mask.reshape(-1)

    @functools.cached_property
    def field(self) -> Field:
        """What regions of it may be named by."""
        others = [
            (one.name, one.values)
            for one in self.known.tensors
            if one.name != self.name and not one.values.is_complex()
        ]
        values = None if self.is_complex else self.values.reshape(self.shape)
        numbers = [(one.name, float(one.values)) for one in self.known.numbers]
        return Field(self.name, self.shape, values, others, numbers)

    # --------------------------------------------------------------- what it claims

    def _prepare(self) -> None:
        """Lines that move this input alone, cotangents without kinks, and the claims."""
        charge = self.charge
        if charge.ladders:
            self.ladders, self.response = list(charge.ladders), charge.response
            self.smooth = self.response.smooth
        else:
            self.ladders, self.response = self._climb()
            self.smooth = self.response.smooth & charge.response.smooth
        self.cotangents = self._chosen()
        self.none = True
        self.claims = [self.pulled(u) for u in self.cotangents]

    def _chosen(self) -> list[Tensor]:
        """The cotangents of the charge, and one more that differs from them everywhere."""
        given = [torch.where(self.smooth, u, 0.0) for u in self.charge.cotangents]
        first = given[0]
        drawn = signs(stream(self.charge.seed, 801), first.numel())
        return [*given, self.trial.represent(_OTHER * first.abs() * drawn)]

    def pulled(self, cotangent: Tensor) -> Tensor:
        """This input's gradient for a cotangent, float64 (n,)."""
        gradient = self.referee.gradient(cotangent)[self.index]
        if gradient is None:
            return torch.zeros_like(self.values)
        self.none = False
        return gradient

    def _tried(self, cotangent: Tensor) -> Tensor:
        """The same for a cotangent that nobody asks for again."""
        handed = self.trial.represent(cotangent)
        gradient = self.trial.pull(self.referee.graph, handed)[self.index]
        if gradient is None:
            return torch.zeros_like(self.values)
        return gradient.nan_to_num_(0.0, 0.0, 0.0)

    def tried(self, cotangents: Sequence[Tensor]) -> list[Tensor] | None:
        """The same for cotangents that a cause wants; None where it asks too much."""
        self.pulls += len(cotangents)
        if self.pulls > min(_MOST_PULLS, self.most_tries):
            return None
        return [self._tried(u) for u in cotangents]

    def claims_with(self, index: int, values: Tensor) -> list[Tensor]:
        """The claims if input `index` had these values (n,) instead: 1 forward.

        Raises:
            Refused: forward raises there.
            BackwardRaised: backward does.
        """
        self.budget.need(1)
        every = [p.values for p in self.trial.points]
        every[index] = values
        graph = self.trial.record(every)
        found = [self.trial.pull(graph, u)[self.index] for u in self.cotangents]
        return [torch.zeros_like(self.values) if g is None else g for g in found]

    def other_claims(self) -> list[tuple[str, int, list[Tensor]]]:
        """(name, number, claims) of the call's other inputs, where there are claims."""
        found = []
        rows = [self.referee.gradient(u) for u in self.cotangents]
        for k, one in enumerate(self.trial.inputs):
            claims = [row[k] for row in rows]
            if k != self.index and all(c is not None for c in claims):
                found.append((one.name, k, [c for c in claims if c is not None]))
        return found

    # ----------------------------------------------------------------- what is true

    def within(self, mask: Tensor) -> Witness:
        """Equations for the elements in `mask` (n,) alone: 4 forwards, 2 for one."""
        single = int(torch.count_nonzero(mask)) == 1
        lines = [self.line(mask, number) for number in range(1 if single else 2)]
        found = [[self._slope(line, u) for u in self.cotangents] for line in lines]
        return along_lines(
            [line.steps for line in lines],
            _matrix([[e.value for e in row] for row in found]),
            _matrix([[e.error for e in row] for row in found]),
            self.charge.rounding,
        )

    def _climb(self) -> tuple[list[Ladder], Response]:
        precision = self.charge.response.precision
        lines = []
        for number in range(2):
            group = []
            for repeat in range(self._repeats()):
                step = self._step(10 * number + repeat, by_claim=number == 0)
                group.append(self._only(step))
            lines.append(group)
        self.budget.need(6 * sum(len(g) for g in lines))
        ladders = self.referee.climb(lines, precision)
        return ladders, self.referee.respond(ladders, precision, self.charge.factor)

    def _repeats(self) -> int:
        count = self.values.numel() + self.referee.values.numel()
        return max(1, min(self.charge.response.precision.repeats, _AVERAGED // count))

    def _only(self, step: Tensor) -> list[Tensor | None]:
        """Steps of all inputs, of which one moves."""
        every: list[Tensor | None] = [None] * len(self.trial.inputs)
        every[self.index] = step
        return every

    def _step(self, number: int, *, by_claim: bool = False) -> Tensor:
        own = self.referee.gradient(self.charge.cotangents[0])[self.index]
        return direction(
            self.input.point,
            self.charge.response.precision,
            stream(self.charge.seed, 700 + number, self.index),
            factor=self.charge.factor,
            signs_of=own if by_claim else None,
            frozen=self.referee.frozen[self.index],
        )

    def witness_for(self, cotangents: Sequence[Tensor]) -> Witness:
        """Equations for the whole input and these cotangents: no forwards."""
        ladders, response = self.ladders, self.response
        rows = slopes(ladders, response, cotangents)
        truth = [[s.estimate.value for s in row] for row in rows]
        bar = [
            [
                s.estimate.error + (_KINK_SLACK * abs(s.kink) if s.has_kink else 0.0)
                for s in row
            ]
            for row in rows
        ]
        steps = [ladder.steps[self.index] for ladder in ladders]
        return along_lines(
            [s for s in steps if s is not None],
            _matrix(truth),
            _matrix(bar) * response.precision.margin,
            self.charge.rounding,
        )

    # -------------------------------------------------------- short lines: 2 forwards

    @functools.cached_property
    def full_steps(self) -> tuple[Tensor, Tensor]:
        """Two directions, whose parts are moved one after the other."""
        step = self.ladders[1].steps[self.index]
        if self.ladders[1].count > 1 or step is None:
            step = self._step(10)
        return step, self._step(40)

    @functools.cached_property
    def _bend(self) -> Tensor:
        """What the middle rung's difference quotient may be off by, a step."""
        shape = forms(self.ladders[1].ratio)
        ladder = self.ladders[1]
        both = torch.stack([shape.second.weights - shape.near.weights])
        return (both @ ladder.moved)[0].abs() / ladder.count

    def line(self, mask: Tensor, number: int = 0) -> Line:
        """Forward with only the elements in `mask` (n,) moving: 2 forwards."""
        at = int(mask.to(torch.uint8).argmax()) if int(mask.sum()) == 1 else None
        if at is not None and (at, number) in self._single:
            return self._single[at, number]
        self.budget.need(2)
        m = float(self.response.precision.ratio)
        step = torch.where(mask, self.full_steps[number], 0.0)
        ahead, behind = (
            self.trial.forward(move(self.trial.points, self._only(step), side * m))
            for side in (1.0, -1.0)
        )
        change = torch.where(self.smooth, (ahead - behind) / (2 * m), 0.0)
        line = Line(
            step,
            change,
            self.response.noise / (math.sqrt(2) * m),
            torch.where(change != 0, _SAFE * self._bend, 0.0),
        )
        if at is not None:
            self._single[at, number] = line
        return line

    def moved(self, mask: Tensor) -> Tensor:
        """The outputs that change when the elements in `mask` do: 1 forward."""
        self.budget.need(1)
        m = float(self.response.precision.ratio)
        step = torch.where(mask, self.full_steps[0], 0.0)
        values = self.trial.forward(move(self.trial.points, self._only(step), m))
        return (values != self.referee.values) & self.smooth

    def _slope(self, line: Line, cotangent: Tensor) -> Estimate:
        """The derivative along a short line for one cotangent."""
        noise = float((cotangent * line.noise).norm())
        bend = float((cotangent * line.bend).abs().sum())
        bar = self.response.precision.z * noise + bend
        return Estimate(float(cotangent @ line.slopes), bar)

    def at(self, element: int) -> tuple[float, Estimate] | None:
        """(claim, truth) of one real element for the first cotangent: 2 forwards.

        None where it cannot be moved.
        """
        only = torch.zeros_like(self.mask)
        only[element] = True
        line = self.line(only)
        step = float(line.steps[element])
        if not step:
            return None
        u = torch.where(line.slopes != 0, self.cotangents[0], 0.0)
        truth = self._slope(line, u)
        claim = float(self.claims[0][element])
        return claim, Estimate(truth.value / step, truth.error / abs(step))

    def as_points(self, line: Line, output_of: Tensor) -> Witness:
        """Equations for each element, where each has outputs of its own.

        Args:
            line: along which all of them moved.
            output_of: the element that each output hangs on, int64 (num_outputs,).
        """
        usable = (line.steps != 0) & self.mask
        step = torch.where(usable, line.steps, 1.0)
        truths, bars = [], []
        for u in self.cotangents:
            value = _gathered(u * line.slopes, output_of, step.numel())
            noise = _gathered((u * line.noise).square(), output_of, step.numel())
            bend = _gathered((u * line.bend).abs(), output_of, step.numel())
            bar = _SINGLE * self.response.precision.z * noise.sqrt() + bend
            truths.append(value / step)
            bars.append(bar / step.abs())
        return pointwise(truths, bars, usable, self.charge.rounding)


def _gathered(values: Tensor, group: Tensor, count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.float64).index_add_(0, group, values)


def _matrix(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)
