"""The order in which ranks verify together: what each asks itself, then what all ask.

alone      would this Function communicate? it is stopped before it does
together   exchange what was seen; rank 0 leads through the calls that all have kept
alone      the usual laws, for what does not communicate
together   exchange the reports
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from backproof.audit.identity import Identity
from backproof.audit.ledger import KeptCall, Ledger
from backproof.audit.ranks.adjoint import Adjoint
from backproof.audit.ranks.circle import (
    Apart,
    Circle,
    distributed,
    ranks_in_words,
)
from backproof.audit.ranks.communication import communicates, connected
from backproof.audit.ranks.convention import Sharing, possible, shared
from backproof.audit.ranks.part import Order, Parts, Side, Which
from backproof.audit.ranks.replicas import (
    Seen,
    Suspect,
    same_inputs,
    seen,
    suspects,
    with_proof,
)
from backproof.audit.ranks.stage import together
from backproof.errors import BadInput
from backproof.records import Judgement, Verdict
from backproof.report import Report


@dataclass
class Found:
    """What ranks found out together.

    Attributes:
        communicating: the Functions that only they could judge.
        judgements: of which Function, on which call, what.
        reasons: why a Function was not judged.
    """

    communicating: set[Identity] = field(default_factory=set)
    judgements: list[tuple[Which, Judgement]] = field(default_factory=list)
    reasons: list[tuple[Identity, str]] = field(default_factory=list)


@dataclass(frozen=True)
class _Mine:
    """What one rank brings to an exchange."""

    communicating: frozenset[Identity]
    calls: Mapping[Identity, tuple[int, ...]]
    seen: Mapping[Identity, Seen]


class Lockstep:
    """The ranks of this program, for as long as it is verified.

    Args:
        seed: of directions and cotangents.
        patience: seconds that ranks wait for one another.
        enter: told of what runs next, a Function and a phase.
    """

    def __init__(
        self, seed: int, patience: float, enter: Callable[[Ledger, str], None]
    ) -> None:
        self._seed, self._patience, self._enter = seed, patience, enter
        self._circle: Circle | None = None
        self._sharing: dict[Identity, dict[str, Sharing]] = {}
        self._communicating: set[Identity] = set()

    @property
    def place(self) -> tuple[int, int]:
        """This rank and how many there are, where they are together; else (0, 1)."""
        circle = self._circle
        if circle is None or circle.broken:
            return 0, 1
        return circle.rank, circle.size

    def verify(self, ledgers: Sequence[Ledger], seconds: float) -> Found:
        """Judge what communicates, all ranks together."""
        found = Found()
        kept = [ledger for ledger in ledgers if ledger.kept]
        for ledger in kept:
            if self._communicates(ledger):
                found.communicating.add(ledger.identity)
        try:
            circle = self._met()
            with circle.impatient():
                self._verify(circle, kept, found, seconds)
        except Apart as error:
            judged = {which[0] for which, _ in found.judgements}
            for identity in found.communicating - judged:
                found.reasons.append((identity, f"it communicates, and {error}"))
        return found

    def others(self, report: Report, seconds: float) -> list[Report]:
        """The reports of the other ranks, who get this one; none where they are apart.

        `seconds` is what another rank may need longer than this one.
        """
        circle = self._circle
        if circle is None or circle.broken or distributed() is None:
            return []
        try:
            circle.meet(seconds)
            parts = circle.exchange(report.to_json(indent=None))
        except Apart:
            return []
        del parts[circle.rank]
        return [Report.from_json(part) for part in parts]

    def wait_for_all(self, seconds: float) -> None:
        """Until every rank's program is over, so that no exit code ends another's."""
        if self._circle is not None and not self._circle.broken:
            try:
                self._circle.await_all("over", seconds)
            except (Apart, RuntimeError):  # they went before us, or their store did
                return

    # ------------------------------------------------------------------ together

    def _met(self) -> Circle:
        if self._circle is None or self._circle.world is not _world():
            self._circle = Circle(self._patience)
        if _raised():
            self._circle.leave(
                f"{ranks_in_words([self._circle.rank])} was ended by an exception"
            )
        self._circle.meet()
        return self._circle

    def _communicates(self, ledger: Ledger) -> bool:
        if ledger.identity not in self._communicating and any(
            communicates(ledger, call, self._seed) for call in ledger.kept
        ):
            self._communicating.add(ledger.identity)
        return ledger.identity in self._communicating

    def _verify(
        self, circle: Circle, kept: Sequence[Ledger], found: Found, seconds: float
    ) -> None:
        mine = _Mine(
            frozenset(found.communicating),
            {one.identity: tuple(c.number for c in one.kept) for one in kept},
            {one.identity: saw for one in kept if (saw := seen(one)) is not None},
        )
        everyone: list[_Mine] = circle.exchange(mine)
        found.communicating |= set().union(*(one.communicating for one in everyone))
        self._communicating |= found.communicating
        self._learn_sharing(everyone)
        calls = {
            (ledger.identity, call.number): (ledger, call)
            for ledger in kept
            for call in ledger.kept
        }
        parts = Parts(calls, self._seed, self._enter)
        if circle.leads:
            leading = _Leading(circle, parts, calls, everyone, self._sharing, found)
            try:
                leading.judge(self._seed, seconds)
            finally:
                if not circle.broken:
                    circle.hand_out([Order("close")] * circle.size)
        else:
            parts.serve(circle)
        told: list[Found | None] = circle.exchange(found if circle.leads else None)
        led = told[0]
        assert led is not None
        found.judgements, found.reasons = led.judgements, led.reasons

    def _learn_sharing(self, everyone: Sequence[_Mine]) -> None:
        """Who held the same inputs in the first calls; they may go apart later."""
        whole = (tuple(range(len(everyone))),)
        for identity in set.intersection(*(set(one.seen) for one in everyone)):
            saw = [one.seen[identity] for one in everyone]
            if identity in self._sharing or len({one.names for one in saw}) > 1:
                continue
            self._sharing[identity] = {
                name: shared([one.inputs[k].digest for one in saw], whole)
                for k, name in enumerate(saw[0].names)
                if not any(one.inputs[k].constant for one in saw)
            }


class _Leading:
    """Rank 0's part: which calls are judged, and what is said of them."""

    def __init__(
        self,
        circle: Circle,
        parts: Parts,
        calls: Mapping[Which, tuple[Ledger, KeptCall]],
        everyone: Sequence[_Mine],
        sharing: Mapping[Identity, Mapping[str, Sharing]],
        found: Found,
    ) -> None:
        self._circle, self._parts, self._calls = circle, parts, calls
        self._everyone, self._sharing, self._found = everyone, sharing, found
        self._suspects: list[Suspect] = []

    def judge(self, seed: int, seconds: float) -> None:
        """Every call of a Function that communicates, while there is time."""
        end = time.monotonic() + seconds
        common = {one: self._common(one) for one in sorted(self._found.communicating)}
        groups = self._connections(common)
        self._suspects = self._suspected(groups)
        for one in self._suspects:
            if one.function not in common:
                ranks = range(self._circle.size)
                alone = tuple((rank,) for rank in ranks if rank not in one.ranks)
                self._judge_call((one.function, one.call), (one.ranks, *alone), seed)
        for turn in range(max((len(n) for n in common.values()), default=0)):
            for identity, numbers in common.items():
                known = identity not in groups or self._is_settled(identity)
                if turn >= len(numbers) or known:
                    continue
                if time.monotonic() > end:
                    self._say(identity, "not reached: the time for all was spent")
                    continue
                which = (identity, numbers[turn])
                self._judge_call(which, tuple(groups[identity]), seed)

    def _connections(
        self, common: Mapping[Identity, Sequence[int]]
    ) -> dict[Identity, list[tuple[int, ...]]]:
        """Which ranks each Function connects, as its first call shows."""
        found = {}
        for identity, numbers in common.items():
            sides = self._open((identity, numbers[0])) if numbers else None
            if sides is not None:
                groups = [set(side.groups) for side in sides]
                found[identity] = connected(groups, self._circle.size)
        return found

    def _common(self, identity: Identity) -> list[int]:
        """The calls that all ranks have kept, in the order in which to judge them."""
        having = [r for r, m in enumerate(self._everyone) if m.calls.get(identity)]
        if len(having) < len(self._everyone):
            who = ranks_in_words(having)
            self._say(identity, f"it communicates, and only {who} kept a call of it")
            return []
        kept = [one.calls[identity] for one in self._everyone]
        numbers = [n for n in kept[0] if all(n in other for other in kept[1:])]
        if not numbers:
            self._say(identity, "it communicates, and ranks kept different calls of it")
        return numbers

    def _open(self, which: Which) -> list[Side] | None:
        orders = [Order("open", which)] * self._circle.size
        try:
            return together(self._circle, self._parts, orders)
        except RuntimeError as error:
            self._say(which[0], f"it could not be replayed in lockstep: {error}")
            return None

    def _judge_call(self, which: Which, parts: Sharing, seed: int) -> None:
        ledger, call = self._calls[which]
        sides = self._open(which)
        if sides is None:
            return
        known = {
            name: _within(sharing, parts)
            for name, sharing in self._sharing.get(which[0], {}).items()
        }
        mine = [one for one in self._suspects if one.function == which[0]]
        surely = frozenset(one.name for one in mine)
        adjoint = Adjoint(self._circle, self._parts, ledger, call.label, sides, seed)
        try:
            judgement = adjoint.judgement(possible(sides, parts, known, surely))
        except (BadInput, RuntimeError) as error:
            self._say(which[0], str(error))
            return
        wrong = judgement.verdict is Verdict.WRONG
        if which[0] not in self._found.communicating and not wrong:
            return  # it is for the usual laws
        for one in mine if wrong else ():
            judgement = with_proof(judgement, one)
        self._found.judgements.append((which, judgement))

    def _suspected(
        self, groups: Mapping[Identity, Sequence[tuple[int, ...]]]
    ) -> list[Suspect]:
        """Which Function ought to communicate, where ranks hold different things."""
        parts: set[tuple[int, ...]] = set()
        for identity, connections in groups.items():
            saw = [one.seen.get(identity) for one in self._everyone]
            known = [one for one in saw if one is not None]
            if len(known) == len(saw):
                parts |= {
                    part
                    for part in connections
                    if len(part) > 1 and not same_inputs(known, part)
                }
        every = [one.seen for one in self._everyone]
        return suspects(every, sorted(parts))

    def _is_settled(self, identity: Identity) -> bool:
        return any(
            judgement.verdict is Verdict.WRONG
            for (judged, _), judgement in self._found.judgements
            if judged == identity
        )

    def _say(self, identity: Identity, reason: str) -> None:
        self._found.reasons.append((identity, reason))


def _within(sharing: Sharing, parts: Sharing) -> Sharing:
    """Those who hold the same, among those who communicate."""
    found = [
        tuple(rank for rank in holders if rank in part)
        for holders in sharing
        for part in parts
    ]
    return tuple(sorted(holders for holders in found if holders))


def _world() -> object:
    found = distributed()
    return found.group.WORLD if found is not None else None


def _raised() -> bool:
    """Whether an exception, and not Ctrl-C, is ending the program."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return isinstance(error, Exception)
