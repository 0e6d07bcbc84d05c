"""The gradient at another point or size: the same referee, briefly."""

from __future__ import annotations

from dataclasses import dataclass

from backproof.battery.diagnosing import diagnosis_of, lines_of, title_of
from backproof.battery.inquiry import Inquiry, Kind
from backproof.battery.laws.declared_gradient import departures
from backproof.battery.two_stages import Gradient, judge_gradient, rounds_to
from backproof.errors import BadInput
from backproof.probe import coarsest, signs, stream
from backproof.records import Location
from backproof.trial import BackwardRaised, Refused, Trial

_FORWARDS = 100  # that a diagnosis there may take


@dataclass(frozen=True)
class Wrong:
    """A gradient that is wrong there.

    Attributes:
        words: what is wrong, in a line, and then the numbers.
        name: of the first input whose gradient it is, empty where that is open.
        inquiry: that found it, None where a declaration was compared.
        found: its conclusion.
        where: the place, where the comparison knows it.
    """

    words: str
    name: str
    inquiry: Inquiry | None = None
    found: Gradient | None = None
    where: Location | None = None

    def explained(self) -> str:
        """The words after a diagnosis, which costs up to 100 forwards."""
        if self.inquiry is None or self.found is None:
            return self.words
        conclusion = self.found.decided_by
        diagnosis = diagnosis_of(self.inquiry, conclusion, self.name, _FORWARDS)
        if diagnosis is None or diagnosis.explanation is None:
            return self.words
        _, _, numbers = self.words.partition("\n")
        others = [n for n in conclusion.wrong_inputs if n != self.name]
        if others:  # whose share the numbers hold as well
            listed = " and ".join(f"`{n}`" for n in others)
            numbers = f"wrong for {listed} as well"
        return "\n".join(
            [title_of(self.name, diagnosis), numbers, *lines_of(diagnosis)]
        )


def what_is_wrong(trial: Trial, seed: int, *, at_kinks: bool = True) -> Wrong | None:
    """What is wrong with the gradient there; None where nothing is known to be.

    In float64 where the subject runs there, as it is otherwise; against the declaration
    where there is one.

    Args:
        trial: the subject there.
        seed: of the directions and cotangents.
        at_kinks: whether what is wrong at kinks alone counts.

    Raises:
        BadInput: forward raises there, or nothing can be differentiated.
        Refused: likewise.
        BackwardRaised: backward raises there.
    """
    if trial.subject.declared:
        graph = trial.record()
        cotangent = trial.represent(signs(stream(seed), graph.values.numel()))
        for evidence in departures(trial, graph, cotangent):
            if evidence.holds is False:
                name = str(evidence.numbers["input"])
                return Wrong(evidence.words, name, where=evidence.where)
        return None
    return _by_probing(trial, seed, at_kinks=at_kinks)


def _by_probing(trial: Trial, seed: int, *, at_kinks: bool) -> Wrong | None:
    wide = trial.in_float64()
    try:
        inquiry = Inquiry(wide or trial, seed=seed)
    except (BadInput, Refused, BackwardRaised):
        if wide is None:
            raise
        inquiry = Inquiry(trial, seed=seed)
    found = judge_gradient(inquiry, None)
    if found.kind is not Kind.WRONG or found.precision_only:
        return None
    if wide is not None and rounds_to(coarsest(trial.dtypes).eps, found.decided_by):
        return None
    look = found.decided_by.look
    if not at_kinks and look is not None and bool(look.response.aside.any()):
        return None
    names = found.decided_by.wrong_inputs or [i.name for i in trial.inputs]
    words = f"the gradient of {', '.join(f'`{n}`' for n in names)} is wrong"
    worst = found.decided_by.worst
    if worst is not None:
        words += (
            f"\nbackward claims  {worst.per_unit(worst.claim)}"
            f"\nforward moves by {worst.per_unit(worst.truth)}"
        )
    return Wrong(words, names[0], inquiry, found)
