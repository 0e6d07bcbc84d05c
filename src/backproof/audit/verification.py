"""Kept calls -> judgements, within a time for all of them together.

In rounds, so that no Function starves another: first one call of each before the laws
that find most, then the other calls, then the remaining laws.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch

from backproof.audit.identity import Identity
from backproof.audit.journal import Entry, Journal
from backproof.audit.judgements import merged, unverified
from backproof.audit.ledger import KeptCall, Ledger
from backproof.audit.one_call import Known, judged
from backproof.audit.ranks.circle import PATIENCE, distributed
from backproof.audit.replay import CannotReplay
from backproof.battery.budget import Budget
from backproof.battery.laws import LAWS
from backproof.errors import BadInput
from backproof.function_class import off_the_record
from backproof.inputs.raised import own_line
from backproof.records import Judgement, Status, Verdict
from backproof.report import Report
from backproof.report.environment import environment
from backproof.report.merging import decides, merged_reports
from backproof.trial.random_state import preserved

if TYPE_CHECKING:
    from backproof.audit.ranks.lockstep import Found, Lockstep
    from backproof.audit.recording import Recording

SECONDS = 60.0
"""What all replays together may take by default."""

FIRST = ("BP501", "BP502", "BP109", "BP101", "BP106", "BP110", "BP104", "BP108")
"""What every kept call is asked: is this the gradient of what forward did?"""

_NOT_HERE = ("BP505",)  # a kernel that trusts its sizes would take the program down
_AFTER = tuple(
    one.code for one in LAWS if one.code not in FIRST and one.code not in _NOT_HERE
)
_LEAST = 1.0  # seconds that a replay gets at least, while there are any
_FOR_THE_FIRST = 0.5  # of the time is for Functions that nothing is known of yet
_TESTS = 10.0  # that may come, each with as many seconds


_Job = tuple[Ledger, KeptCall, tuple[str, ...]]


class Verification:
    """The replays of one process.

    Attributes:
        left: seconds that may still be spent.
        fresh: name and verdict of what the last `verify` has judged, a call each.
        lockstep: the ranks of this program; None while it is or was but one.
    """

    def __init__(
        self,
        *,
        seconds: float = SECONDS,
        seed: int = 0,
        journal: Journal | None = None,
        patience: float = PATIENCE,
        on_function: Callable[[str, int, int], None] = lambda name, done, of: None,
    ) -> None:
        if not seconds > 0:
            raise BadInput(f"seconds for verification must be above 0, not {seconds}")
        self.left, self._seconds, self._seed = seconds, seconds, seed
        self._journal = journal or Journal()
        self._on_function = on_function
        self._files: dict[Identity, Known] = {}
        self._patience = patience
        self.lockstep: Lockstep | None = None
        self._others: list[Report] = []
        self.fresh: list[tuple[str, Verdict]] = []

    def verify(self, recording: Recording, *, last: bool = True) -> None:
        """Replay what is kept, and let it go.

        Args:
            recording: what is kept.
            last: whether nothing comes after it, so that all of the time may be spent.
                Else a replay gets a tenth of what is left, or the first tests of a
                suite would leave nothing to the others.
        """
        self.fresh = []
        found = self._together(recording)
        apart = found.communicating if found is not None else set()
        waiting = [
            ledger
            for ledger in recording.ledgers.values()
            if ledger.kept and ledger.identity not in apart
        ]
        if waiting:
            self._verify(waiting, last=last)
        if last:
            self._verify_ungraded(list(recording.ledgers.values()))
        if found is not None:
            self._take(found, recording)
        recording.let_go(last=last)

    def _verify(self, waiting: Sequence[Ledger], *, last: bool) -> None:
        with off_the_record(), preserved():
            rounds: list[list[_Job]] = [
                [(one, one.kept[0], FIRST) for one in waiting if self._is_new(one)],
                [(one, call, FIRST) for one, call in _in_turn(waiting, self._is_new)],
                [(one, one.kept[0], _AFTER) for one in waiting if self._is_new(one)],
            ]
            kept_back = 0.0 if last else _FOR_THE_FIRST * self._seconds
            for number, jobs in enumerate(rounds):
                self._work(jobs, 0.0 if number == 0 else kept_back, last=last)

    def _verify_ungraded(self, ledgers: Sequence[Ledger]) -> None:
        """Functions of which no call that needed a gradient was decided."""
        jobs: list[_Job] = [
            (one, one.ungraded, laws)
            for laws in (FIRST, _AFTER)
            for one in ledgers
            if one.ungraded is not None and self._is_undecided(one)
        ]
        with off_the_record(), preserved():
            self._work(jobs, 0.0, last=True)

    def _together(self, recording: Recording) -> Found | None:
        """What the ranks of a program can only find out together."""
        if distributed() is None:
            return None
        from backproof.audit.ranks.lockstep import Lockstep

        if self.lockstep is None:
            self.lockstep = Lockstep(self._seed, self._patience, self._enter_together)
        start = time.perf_counter()
        with off_the_record(), preserved():
            found = self.lockstep.verify(list(recording.ledgers.values()), self.left)
        self._journal.clear()
        self.left -= time.perf_counter() - start
        return found

    def _enter(self, ledger: Ledger, phase: str, code: str) -> None:
        self._journal.note(Entry(ledger.identity.name, *ledger.place, phase, code))

    def _enter_together(self, ledger: Ledger, phase: str) -> None:
        self._enter(ledger, f"{phase} on all ranks", "BP801")

    def _take(self, found: Found, recording: Recording) -> None:
        """Take over what ranks found out, and exchange all that they know by now."""
        assert self.lockstep is not None
        ledgers = recording.ledgers
        for (identity, number), judgement in found.judgements:
            if identity not in ledgers:
                continue
            known = self._file(ledgers[identity])
            known.judgements.append(judgement)
            known.notes += [
                note for note in _notes(judgement) if note not in known.notes
            ]
            self.fresh.append((identity.name, judgement.verdict))
            for call in ledgers[identity].kept:
                if call.number == number:
                    ledgers[identity].checked.add(call.signature)
        for identity, reason in found.reasons:
            if identity in ledgers:
                self._file(ledgers[identity]).reasons.append(reason)
        own = self._own_report(recording, "")
        self._others = self.lockstep.others(own, max(self.left, 0.0))

    def report(self, recording: Recording, *, because: str = "") -> Report:
        """What is known by now, one subject for each Function that was called.

        `because` says why kept calls were not replayed, by default for want of time.
        """
        own = self._own_report(recording, because)
        return merged_reports([own, *self._others]) or own if self._others else own

    def _own_report(self, recording: Recording, because: str) -> Report:
        because = because or self._not_reached
        subjects = [
            self._judgement(ledger, because)
            for ledger in sorted(
                recording.ledgers.values(), key=lambda one: (one.package, one.identity)
            )
        ]
        made = environment(torch=str(torch.__version__), seed=self._seed)
        return Report(made, tuple(subjects))

    def _judgement(self, ledger: Ledger, because: str) -> Judgement:
        known = self._file(ledger)
        if known.judgements:
            return merged(ledger, known.judgements, known.notes)
        reasons = known.reasons
        if not reasons and ledger.kept:
            reasons = [because]
        return unverified(ledger, reasons)

    def _is_new(self, ledger: Ledger) -> bool:
        return not self._file(ledger).judgements

    def _is_undecided(self, ledger: Ledger) -> bool:
        known = self._file(ledger).judgements
        return all(one.verdict is Verdict.INCONCLUSIVE for one in known if decides(one))

    def _file(self, ledger: Ledger) -> Known:
        return self._files.setdefault(ledger.identity, Known())

    @property
    def _not_reached(self) -> str:
        return f"not reached: the {self._seconds:g} s for all were spent before"

    def _work(
        self,
        jobs: Sequence[_Job],
        reserve: float,
        *,
        last: bool,
    ) -> None:
        for number, (ledger, call, laws) in enumerate(jobs):
            available = self.left - reserve
            if available <= 0:
                self._file(ledger).reasons.append(self._not_reached)
                continue
            self._on_function(ledger.identity.name, number, len(jobs))
            share = available / (len(jobs) - number)
            if not last:
                share = min(share, available / _TESTS)
            share = max(_LEAST, share)
            start = time.perf_counter()
            try:
                self._replay(ledger, call, laws, share)
            finally:
                self._journal.clear()
                self.left -= time.perf_counter() - start

    def _replay(
        self, ledger: Ledger, call: KeptCall, laws: tuple[str, ...], seconds: float
    ) -> None:
        known = self._file(ledger)
        if laws is _AFTER and (known.linked or not _is_open(known.judgements)):
            return
        try:
            judgement = judged(
                ledger,
                call,
                laws,
                known,
                budget=Budget(seconds=seconds),
                seed=self._seed,
                on_phase=partial(self._enter, ledger),
            )
        except CannotReplay as error:
            known.reasons.append(str(error))
            return
        except BadInput as error:
            known.reasons.append(_sentence(error, ledger.identity.name))
            return
        except Exception as error:  # a defect of ours must not take the others along
            line = own_line(error)
            place = f" at {line}" if line else ""
            known.reasons.append(
                f"it could not be replayed{place}: {type(error).__name__}: {error}"
            )
            return
        ledger.checked.add(call.signature)
        known.judgements.append(judgement)
        self.fresh.append((ledger.identity.name, judgement.verdict))


def _notes(judgement: Judgement) -> list[str]:
    """In which convention of ranks the law holds."""
    held = [one for one in judgement.outcomes if one.status is Status.HELD]
    return [one.words for one in held]


def _in_turn(
    ledgers: Sequence[Ledger], is_new: Callable[[Ledger], bool]
) -> Iterator[tuple[Ledger, KeptCall]]:
    """The calls of all Functions in turn, without the first of those that are new."""
    rows = [list(one.kept[1:] if is_new(one) else one.kept) for one in ledgers]
    for column in range(max(map(len, rows), default=0)):
        for ledger, row in zip(ledgers, rows, strict=True):
            if column < len(row):
                yield ledger, row[column]


def _is_open(judgements: Sequence[Judgement]) -> bool:
    """Whether the gradient was judged, and more laws could still change the verdict."""
    settled = (Verdict.CRASHED, Verdict.WRONG)
    return bool(judgements) and not any(one.verdict in settled for one in judgements)


def _sentence(error: BadInput, name: str) -> str:
    return str(error).removeprefix(f"{name}: ")
