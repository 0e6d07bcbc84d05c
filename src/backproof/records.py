"""The words in which backproof speaks: what was measured, and what was concluded.

A law yields `Evidence`; the battery folds it into an `Outcome`; what is wrong becomes
a `Finding`; all of one subject is a `Judgement`. These records travel between
processes and into every report, so they hold plain numbers and text, never tensors,
and this file does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

Number = float | int | str | Sequence[float | int | str]
"""What evidence may carry: a number, a word, or a short list of them."""


DIAGNOSIS = "diagnosis"
"""The phase in which a verdict stands and only its words are looked for."""


class Status(StrEnum):
    """What became of one law on one case."""

    HELD = "held"
    BROKEN = "broken"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not_applicable"
    CRASHED = "crashed"


class Verdict(StrEnum):
    """What is said of a subject, worst first."""

    CRASHED = "crashed"
    WRONG = "wrong"
    SURROGATE = "surrogate"
    INCONCLUSIVE = "inconclusive"
    PASS = "pass"

    @property
    def rank(self) -> int:
        """0 for the worst verdict, growing as things get better."""
        return list(Verdict).index(self)

    @property
    def stands(self) -> bool:
        """Whether it holds whatever else is still found out."""
        return self in (Verdict.CRASHED, Verdict.WRONG)


class Severity(StrEnum):
    """An error decides the verdict; a note never does."""

    ERROR = "error"
    NOTE = "note"


@dataclass(frozen=True)
class Location:
    """A place in a source file; `line` and `column` count from 1.

    `text` is what is written there, on one line; empty where only the place is known.
    """

    file: str
    line: int | None = None
    column: int | None = None
    text: str = ""


@dataclass(frozen=True)
class Evidence:
    """One measurement for a law, kept also when the law holds.

    `holds` is None where the measurement could not decide. `where` and `remedy` are a
    place in the source and one sentence, where the measurement knows better than the
    law's page.
    """

    holds: bool | None
    words: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    where: Location | None = None
    remedy: str = ""


def held(words: str, numbers: Mapping[str, Number] | None = None) -> Evidence:
    """Evidence that a law holds."""
    return Evidence(holds=True, words=words, numbers=numbers or {})


def broken(
    words: str,
    numbers: Mapping[str, Number] | None = None,
    *,
    where: Location | None = None,
    remedy: str = "",
) -> Evidence:
    """Evidence that a law is broken: a title, then lines that explain it."""
    return Evidence(
        holds=False, words=words, numbers=numbers or {}, where=where, remedy=remedy
    )


def undecided(words: str, numbers: Mapping[str, Number] | None = None) -> Evidence:
    """A measurement that could not decide, and what would."""
    return Evidence(holds=None, words=words, numbers=numbers or {})


def left_out(words: str, budget: str) -> Evidence:
    """Nothing was measured, since `budget` was spent by then."""
    return undecided(words, {_LEFT_OUT: budget})


_LEFT_OUT = "left_out_by_budget"


@dataclass(frozen=True)
class Outcome:
    """One law on one case, with everything that was measured for it."""

    code: str
    law: str
    case: str
    status: Status
    evidence: tuple[Evidence, ...] = ()

    @property
    def words(self) -> str:
        """The words of the evidence that decided, the first where several did."""
        decisive = {Status.HELD: True, Status.BROKEN: False}.get(self.status)
        chosen = [e for e in self.evidence if e.holds is decisive] or self.evidence
        return chosen[0].words if chosen else ""

    @property
    def left_out(self) -> bool:
        """Whether the law was not asked because a budget was spent."""
        return any(_LEFT_OUT in e.numbers for e in self.evidence)


@dataclass(frozen=True)
class Finding:
    """A defect (or a note), however it was found.

    `words` may have several lines; `remedy` is one sentence.
    """

    code: str
    severity: Severity
    title: str
    words: str
    where: Location | None = None
    remedy: str = ""


@dataclass(frozen=True)
class Usage:
    """How a program used a Function while it was watched.

    Attributes:
        calls: how often it was called.
        signatures: how many shapes, types and needs of gradients were met.
        checked: of how many of them a call was replayed.
        package: the installed package it belongs to; empty for the program's own.
        unrecorded: calls that could not be kept, by reason.
        notes: what the verdict rests on beside the laws, a sentence each.
    """

    calls: int
    signatures: int
    checked: int
    package: str = ""
    unrecorded: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judgement:
    """All that was found out about one subject.

    `resolution` holds, for each input, the smallest relative error of its gradient
    that would have been seen; `calls` counts the subject's forward and backward calls.
    `contexts` maps a context's name to its status and words. `usage` is there where a
    running program was watched.
    """

    name: str
    file: str
    line: int | None
    verdict: Verdict
    resolution: Mapping[str, float] = field(default_factory=dict)
    calls: Mapping[str, int] = field(default_factory=dict)
    contexts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    outcomes: tuple[Outcome, ...] = ()
    findings: tuple[Finding, ...] = ()
    usage: Usage | None = None

    def outcome(self, code: str) -> Outcome | None:
        """The worst outcome of the law `code`, None where the law did not run."""
        order = [
            Status.CRASHED,
            Status.BROKEN,
            Status.INCONCLUSIVE,
            Status.HELD,
            Status.NOT_APPLICABLE,
        ]
        mine = [o for o in self.outcomes if o.code == code]
        return min(mine, key=lambda o: order.index(o.status), default=None)
