"""A wrong gradient -> which elements, what relation, what to do.

    plain relations over the whole input ──┐
    which elements                         │ the first that explains the evidence
    plain relations among those            │
    known factors and terms ───────────────┘

What a relation predicts is a whole gradient, so that where it departs from the claim is
known without another call of forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.diagnosis.cause import Cause, Explanation
from backproof.diagnosis.causes import FIRST, LAST, LIBRARIES, PLAIN
from backproof.diagnosis.charge import Charge
from backproof.diagnosis.known import Known
from backproof.diagnosis.region import Region, element, name_of
from backproof.diagnosis.search import Place, locate
from backproof.diagnosis.suspect import Budget, Spent, Suspect
from backproof.diagnosis.witness import narrowed
from backproof.probe import Estimate
from backproof.trial import BackwardRaised, Refused

_EXAMPLE = 0.3  # of the gap at an element: its bar, where it serves as an example
_SAME = 1e-6  # of an element: claim and predicted truth that differ by less are equal
_ROUNDINGS = 4.0  # likewise, in eps of the type


@dataclass(frozen=True)
class Example:
    """One element: what is claimed and what is true, for the first cotangent."""

    name: str
    claim: float
    truth: Estimate


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with the gradient of one input.

    Attributes:
        name: of the input.
        explanation: the relation that explains the evidence, None where none does.
        region: the elements that are wrong, None where they were not found.
        example: one of them, where it could be measured alone.
        ruled_out: names of the causes that were tried and do not explain it.
        forwards: forward calls that it took.
    """

    name: str
    explanation: Explanation | None
    region: Region | None
    example: Example | None = None
    ruled_out: tuple[str, ...] = ()
    forwards: int = 0


def diagnose(charge: Charge, budget: Budget) -> Diagnosis:
    """What is wrong with the gradient that `charge` is about.

    It ends where `budget` does, with what is known by then, and raises nothing that the
    subject raises.
    """
    start = budget.spent
    name = charge.referee.trial.inputs[charge.index].name
    try:
        known = Known(charge.referee.trial, charge.referee.values)
        found = _Study(Suspect(charge, budget, known)).result()
    except (Spent, Refused, BackwardRaised):
        found = Diagnosis(name, None, None)
    return Diagnosis(
        name,
        found.explanation,
        found.region,
        found.example,
        found.ruled_out,
        budget.spent - start,
    )


class _Study:
    """The order of experiments with one suspect."""

    def __init__(self, suspect: Suspect) -> None:
        self.suspect = suspect
        self.asked: list[Cause] = []

    def result(self) -> Diagnosis:
        whole = self.suspect
        explanation = self._ask((*FIRST, *PLAIN), whole)
        if explanation is not None and explanation.settled:
            return self._found(explanation, whole, None)
        place = locate(whole)
        if explanation is not None:
            return self._found(explanation, whole, place)
        seen = self._seen_at(place)
        if seen is not whole:
            explanation = self._ask(PLAIN, seen)
        if explanation is None:
            explanation, seen = self._looked_up(self._pointwise(place), seen)
        return self._found(explanation, seen, place)

    def _seen_at(self, place: Place) -> Suspect:
        """The suspect among the wrong elements, itself where that is all of them."""
        suspect, region = self.suspect, place.region
        if region is None or region.everywhere or not place.sure:
            return self._pointwise(place)
        mask = suspect.flat(region.mask)
        if place.witness is not None:
            rounding = suspect.charge.rounding
            return suspect.seen_at(mask, narrowed(place.witness, mask, rounding))
        try:
            return suspect.seen_at(mask, suspect.within(mask))
        except Spent:
            return suspect

    def _looked_up(
        self, everywhere: Suspect, seen: Suspect
    ) -> tuple[Explanation | None, Suspect]:
        """What the libraries say of the whole, and of the region, and what then is left."""
        turns = [(everywhere, LIBRARIES), (seen, LIBRARIES), (seen, LAST)]
        if seen is everywhere:
            del turns[0]
        for suspect, causes in turns:
            explanation = self._ask(causes, suspect)
            if explanation is not None:
                return explanation, suspect
        return None, seen

    def _pointwise(self, place: Place) -> Suspect:
        if place.witness is None:
            return self.suspect
        return self.suspect.seen_at(self.suspect.mask, place.witness)

    def _ask(self, causes: Sequence[Cause], suspect: Suspect) -> Explanation | None:
        for cause in causes:
            try:
                found = cause(suspect)
            except (Spent, Refused, BackwardRaised):
                continue
            if found is not None:
                return found
            if cause not in self.asked:
                self.asked.append(cause)
        return None

    def _found(
        self, explanation: Explanation | None, seen: Suspect, place: Place | None
    ) -> Diagnosis:
        region = place.region if place is not None else None
        truth = explanation.truth if explanation is not None else None
        if truth is not None and (place is None or region is None):
            region = _departing(seen, truth)
        elif place is None:
            region = _departing(seen, None)
        return Diagnosis(
            self.suspect.name,
            explanation,
            region,
            self._example(region, truth),
            () if explanation else tuple(dict.fromkeys(c.name for c in self.asked)),
        )

    def _example(
        self, region: Region | None, truth: Sequence[Tensor] | None
    ) -> Example | None:
        suspect = self.suspect
        if region is None or suspect.is_complex:
            return None
        claim = suspect.claims[0]
        inside = suspect.flat(region.mask)
        if not bool(inside.any()):
            return None
        expected = truth[0] if truth is not None else torch.zeros_like(claim)
        gap = torch.where(inside, (claim - expected).abs(), -1.0)
        if truth is None and not bool((gap > 0).any()):
            gap = torch.where(inside, suspect.values.abs(), -1.0)
        at = int(gap.argmax())
        try:
            measured = suspect.at(at)
        except (Spent, Refused):
            return None
        if measured is None:
            return None
        said, true = measured
        if not true.error <= _EXAMPLE * abs(true.value - said):
            return None
        return Example(element(suspect.name, suspect.shape, at), said, true)


def _departing(suspect: Suspect, truth: Sequence[Tensor] | None) -> Region:
    """The region in which the claims are not what they should be."""
    if truth is None:
        return name_of(torch.ones(suspect.shape, dtype=torch.bool), suspect.field)
    least = max(_SAME, _ROUNDINGS * suspect.response.precision.eps)
    wrong = torch.zeros_like(suspect.mask)
    care = torch.zeros_like(suspect.mask)
    for claim, other in zip(suspect.claims, truth, strict=True):
        size = torch.maximum(claim.abs(), other.abs())
        care |= size > 0
        wrong |= (claim - other).abs() > least * size
    if not bool(wrong.any()):
        care = wrong = torch.ones_like(wrong)
    care = suspect.elements(care)
    return name_of(suspect.elements(wrong), suspect.field, care)
