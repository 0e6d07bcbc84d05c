"""A hearing: one subject before the laws, case after case, until a budget is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backproof.battery import table
from backproof.battery.budget import Budget, Spending, by_yield
from backproof.battery.examination import Examination
from backproof.battery.findings import findings_of
from backproof.battery.law import Law
from backproof.battery.resolution import resolutions
from backproof.battery.verdict import DECLARED, GRADIENT, fold_verdict
from backproof.codes import page
from backproof.records import (
    DIAGNOSIS,
    Judgement,
    Outcome,
    Status,
    broken,
    left_out,
    undecided,
)
from backproof.subject import Case, Subject
from backproof.trial import Trial

if TYPE_CHECKING:
    from backproof.battery.survey.context import Context
    from backproof.battery.survey.survey import Cell

OnPhase = Callable[[str, str], None]
"""Told what is about to run, such as "forward", and the code that it runs for."""

OnBroken = Callable[[Outcome, Examination], None]
"""Told of a broken law while what was measured for it is still at hand."""


@dataclass
class _Sitting:
    """One case: its examination, and whether there is nothing left to ask."""

    examination: Examination
    over: bool = False


class Hearing:
    """What has been found out about `subject` so far.

    Attributes:
        outcomes: of each law on each case that was asked, or left out.
        crashed: whether backward raised, or the subject ended the program.
    """

    def __init__(
        self,
        subject: Subject,
        cases: Sequence[Case],
        *,
        seed: int,
        budget: Budget | None,
        on_phase: OnPhase,
        on_broken: OnBroken = lambda outcome, examination: None,
    ) -> None:
        self.outcomes: list[Outcome] = []
        self.crashed = False
        self._subject, self._cases, self._seed = subject, cases, seed
        self._spending = Spending(budget)
        self._on_phase, self._phase, self._code = on_phase, "forward", GRADIENT
        self._on_broken = on_broken
        self._diagnosing = False
        self._sittings: dict[int, _Sitting] = {}
        self._resolution: dict[str, float] = {}
        self._calls: dict[str, int] = {}
        self._cells: list[Cell] = []
        self._told: list[Outcome] = []  # by the cells

    def ask(self, laws: Sequence[Law], on_outcome: Callable[[], None]) -> None:
        """Ask `laws` on every case, telling `on_outcome` after each.

        Raises:
            BadInput: a case cannot be checked.
        """
        for k, law in self._turns(laws):
            sitting = self._sitting(k)
            if not sitting.over:
                self._hear(sitting, law, on_outcome)
                on_outcome()
        for k in list(self._sittings):
            self._close(k)

    def survey(self, contexts: Sequence[Context], on_cell: Callable[[], None]) -> None:
        """Run the first case in `contexts`, where it can run at all.

        `on_cell` is told after each of them.
        """
        case = self._cases[0]
        if self.crashed:
            reason = "not tried: backward raises or ends the program in eager mode"
            self._cells = table.not_run(contexts, reason)
            return
        trial = Trial(self._subject, case, seed=self._seed, on_phase=self._enter)
        cells = table.cells_of(trial, contexts, self._entering(contexts))
        reason = ""
        while len(self._cells) < len(contexts):
            if self._spending.over(self._num_calls()):
                reason = f"left out: the budget of {self._spending.budget} was spent"
                break
            try:
                self._cells.append(next(cells))
            except SystemExit as error:
                self._ended(self._code, page(self._code).title, case.label, error)
                reason = f"{self._phase} ends the program"
                break
            self._told = list(table.outcomes_of(self._cells, case.label))
            for outcome in table.outcomes_of(self._cells[-1:], case.label):
                self._tell_if_broken(outcome, Examination(trial, seed=self._seed))
            on_cell()
        self._cells += table.not_run(contexts[len(self._cells) :], reason)
        self._told = list(table.outcomes_of(self._cells, case.label))

    def judgement(self) -> Judgement:
        """What is known by now."""
        where = self._subject.where
        outcomes = (*self.outcomes, *self._told)
        return Judgement(
            name=self._subject.name,
            file=where.file if where else "",
            line=where.line if where else None,
            verdict=fold_verdict(outcomes),
            resolution=dict(self._resolution),
            calls=dict(self._calls),
            contexts=table.as_table(self._cells),
            outcomes=outcomes,
            findings=tuple(findings_of(self._subject, outcomes)),
        )

    def _turns(self, laws: Sequence[Law]) -> Iterator[tuple[int, Law]]:
        """Pairs of a case and a law.

        Under a budget the strongest law comes first on all cases; without one all that
        a case was given is let go before the next.
        """
        numbers = range(len(self._cases))
        if self._spending.budget is not None:
            yield from ((k, law) for law in by_yield(laws) for k in numbers)
            return
        for k in numbers:
            yield from ((k, law) for law in laws)
            self._close(k)

    def _sitting(self, k: int) -> _Sitting:
        if k not in self._sittings:
            self._code = GRADIENT  # what any law would have run first
            trial = Trial(
                self._subject, self._cases[k], seed=self._seed, on_phase=self._enter
            )
            sitting = _Sitting(Examination(trial, seed=self._seed))
            self._sittings[k] = sitting
            try:
                sitting.examination.backward_raised()
            except SystemExit as error:
                label = self._cases[k].label
                self._ended(GRADIENT, page(GRADIENT).title, label, error)
                sitting.over = True
        return self._sittings[k]

    def _hear(
        self, sitting: _Sitting, law: Law, on_outcome: Callable[[], None]
    ) -> None:
        if self._spending.over(self._num_calls()):
            self.outcomes.append(self._left_out(sitting, law))
            return
        self._code = law.code
        try:
            outcome = law(sitting.examination)
        except SystemExit as error:
            label = sitting.examination.trial.case.label
            self._ended(law.code, law.text, label, error)
            sitting.over = True
            return
        self.outcomes.append(outcome)
        # A diagnosis may take as long as the law; the verdict stands without it.
        affordable = not self._spending.over(self._num_calls())
        if outcome.status is Status.BROKEN and law.explain is not None and affordable:
            on_outcome()  # it stands, whatever becomes of the diagnosis
            outcome = self.outcomes[-1] = self._explained(law, sitting, outcome)
        self._tell_if_broken(outcome, sitting.examination)
        # Without a gradient there is nothing to measure behind the laws of its form.
        last = law.code == "BP502" and sitting.examination.backward_raised() is not None
        if outcome.status is Status.CRASHED or last:
            sitting.over = self.crashed = True

    def _explained(self, law: Law, sitting: _Sitting, outcome: Outcome) -> Outcome:
        self._diagnosing = True
        try:
            return law.explained(sitting.examination, outcome)
        except SystemExit:
            return outcome
        finally:
            self._diagnosing = False

    def _tell_if_broken(self, outcome: Outcome, examination: Examination) -> None:
        if outcome.status in (Status.BROKEN, Status.CRASHED):
            self._on_broken(outcome, examination)

    def _ended(self, code: str, text: str, label: str, error: SystemExit) -> None:
        words = (
            f"{self._phase} calls sys.exit({error.code!r})\nit ends the whole program"
        )
        outcome = Outcome(code, text, label, Status.CRASHED, (broken(words),))
        self.outcomes.append(outcome)
        self.crashed = True

    def _left_out(self, sitting: _Sitting, law: Law) -> Outcome:
        label = sitting.examination.trial.case.label
        other = GRADIENT if self._subject.declared else DECLARED
        if law.code == other:  # it could not have been asked anyway
            reason = undecided("it has nothing to say of this subject")
            return Outcome(law.code, law.text, label, Status.NOT_APPLICABLE, (reason,))
        budget, num_calls = str(self._spending.budget), self._num_calls()
        words = f"left out: the budget of {budget} was spent after {num_calls} calls"
        evidence = left_out(words, budget)
        return Outcome(law.code, law.text, label, Status.INCONCLUSIVE, (evidence,))

    def _close(self, k: int) -> None:
        """Keep the numbers of case `k` and let go of everything else."""
        sitting = self._sittings.pop(k, None)
        if sitting is None:
            return
        for key, count in sitting.examination.num_calls.items():
            self._calls[key] = self._calls.get(key, 0) + count
        for key, value in resolutions(sitting.examination).items():
            self._resolution[key] = max(value, self._resolution.get(key, 0.0))

    def _enter(self, phase: str) -> None:
        self._phase = DIAGNOSIS if self._diagnosing else phase
        self._on_phase(self._phase, self._code)

    def _entering(self, contexts: Sequence[Context]) -> Callable[[str], None]:
        codes = {f"context {one.name}": one.code for one in contexts}
        self._code = contexts[0].code

        def enter(phase: str) -> None:
            self._code = codes.get(phase, self._code)
            self._enter(phase)

        return enter

    def _num_calls(self) -> int:
        now = [s.examination.num_calls for s in self._sittings.values()]
        return sum(sum(calls.values()) for calls in (self._calls, *now))
