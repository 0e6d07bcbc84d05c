"""The one interface of a law.

A law is a function that measures: it is given an `Examination` of one subject on one
case and yields `Evidence`. The decorator makes it a `Law`; calling that folds the
evidence into an `Outcome`. To add one: a file in `laws/` with a function under
`@law("BPnnn")`, its docstring's first line the law, then its cost and its blind spot.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from backproof.battery.examination import Examination
from backproof.battery.place import Places
from backproof.records import Evidence, Outcome, Status, broken, undecided
from backproof.trial import BackwardRaised, Refused

Measure = Callable[[Examination], Iterator[Evidence]]


class NotApplicable(Exception):
    """The law has nothing to say about this subject on this case; the text says why."""


@dataclass(frozen=True)
class Law:
    """What must hold, and how to measure whether it does.

    Attributes:
        code: its code, such as BP101.
        name: the measuring function's name.
        text: the law in one sentence.
        measure: yields evidence, or raises `NotApplicable`.
        explain: yields the evidence of a broken law once more, with what is wrong, where
            and what to do; it may run the subject again.
    """

    code: str
    name: str
    text: str
    measure: Measure
    explain: Measure | None = None

    def __call__(self, examination: Examination) -> Outcome:
        """Measure, and fold what was measured."""
        try:
            evidence = tuple(self.measure(examination))
        except NotApplicable as reason:
            return self._outcome(
                examination, Status.NOT_APPLICABLE, undecided(str(reason))
            )
        except Refused as error:
            return self._outcome(
                examination,
                Status.NOT_APPLICABLE,
                undecided(f"forward refuses what the law would try: {error}"),
            )
        except BackwardRaised as error:
            evidence = (_crash(examination, error),)
            return self._outcome(examination, Status.CRASHED, *evidence)
        return self._outcome(examination, fold(evidence), *evidence)

    def explained(self, examination: Examination, outcome: Outcome) -> Outcome:
        """A broken outcome in words that say why; its status stays what it is."""
        if self.explain is None or outcome.status is not Status.BROKEN:
            return outcome
        try:
            evidence = tuple(self.explain(examination))
        except Exception as error:  # words must not cost a verdict
            first, *others = outcome.evidence
            why = f"the diagnosis ended early: {type(error).__name__}: {error}"
            first = dataclasses.replace(first, words=f"{first.words}\n{why}")
            evidence = (first, *others)
        return dataclasses.replace(outcome, evidence=evidence)

    def _outcome(
        self, examination: Examination, status: Status, *evidence: Evidence
    ) -> Outcome:
        label = examination.trial.case.label
        return Outcome(self.code, self.text, label, status, evidence)


def law(code: str, *, explain: Measure | None = None) -> Callable[[Measure], Law]:
    """Make a measuring function the law `code`."""

    def wrap(measure: Measure) -> Law:
        text = (inspect.getdoc(measure) or "").splitlines()[0]
        return Law(code, measure.__name__, text, measure, explain)

    return wrap


def fold(evidence: tuple[Evidence, ...]) -> Status:
    """Broken if any evidence breaks it; held if some holds and none is undecided."""
    if any(e.holds is False for e in evidence):
        return Status.BROKEN
    if any(e.holds is None for e in evidence):
        return Status.INCONCLUSIVE
    return Status.HELD if evidence else Status.NOT_APPLICABLE


def _crash(examination: Examination, error: BackwardRaised) -> Evidence:
    """The evidence for a backward that raised: what, and from which line."""
    places, words = Places(examination.trial), raised(error)
    where, remedy = places.raised(error), _AT_THE_LINE
    if where is None:  # the engine raises, on what backward returns
        where = places.returned()
        remedy = _TENSORS if "expected Variable" in words else ""
    return broken(
        f"backward raises where a normal op would not\n{words}",
        where=where,
        remedy=remedy,
    )


_TENSORS = "Return a tensor, or `None`, for each input of forward."
_AT_THE_LINE = (
    "Make this line run for every cotangent that autograd may send; the exception is "
    "the same from `.sum().backward()` on these inputs."
)


def raised(error: BackwardRaised) -> str:
    """What the user's backward raised, in a line."""
    cause = error.__cause__ or error
    first = (str(cause).strip() or "without a message").splitlines()[0]
    return f"{type(cause).__name__}: {first}"
