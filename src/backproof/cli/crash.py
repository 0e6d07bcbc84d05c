"""A process that died -> words, and the verdict of the subject that it ran."""

from __future__ import annotations

import dataclasses
import re
import signal
from dataclasses import dataclass

from backproof.cli.events import Begun, Failed, Judged, Phase
from backproof.codes import page
from backproof.inputs.raised import is_foreign
from backproof.records import (
    DIAGNOSIS,
    Evidence,
    Finding,
    Judgement,
    Location,
    Outcome,
    Severity,
    Status,
    Verdict,
)

_SIGNALS: dict[int, str] = {
    signal.SIGSEGV: "a segmentation fault: memory was used that is not its own",
    signal.SIGABRT: "an abort, as a failed assertion in C++ or a double free makes",
    signal.SIGFPE: "an arithmetic fault, such as an integer division by zero",
    signal.SIGILL: "an instruction that this processor does not have",
    signal.SIGBUS: "a bus error: memory that is not there",
    signal.SIGKILL: "killed from outside, most likely because memory ran out",
}
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in ', re.MULTILINE)


@dataclass(frozen=True)
class Death:
    """How a process ended.

    Attributes:
        words: what follows "backward ...".
        detail: a sentence more.
        remedy: what to do, one sentence.
        where: the line that ran, where it is known.
    """

    words: str
    detail: str = ""
    remedy: str = ""
    where: Location | None = None


def of_exit(code: int, dump: str) -> Death:
    """The death of a process that ended before it was done.

    Args:
        code: its exit code; a negative one is a signal.
        dump: what `faulthandler` wrote, empty where it had no time to.
    """
    if code >= 0:
        return Death(
            f"ended the process with exit code {code}",
            "It called os._exit, or native code called exit.",
            "Raise an exception instead: whoever trains with it can then handle it.",
            _place(dump),
        )
    known = {number.value: number.name for number in signal.Signals}
    name = known.get(-code, f"signal {-code}")  # real-time signals have no name
    detail = _SIGNALS.get(-code, "")
    return Death(
        f"killed the process: {name}",
        f"{name} is {detail}." if detail else "",
        "Run it alone on the same inputs, with the native debugger of your platform.",
        _place(dump),
    )


def of_hang(seconds: float, dump: str) -> Death:
    """No sign of life for so long."""
    return Death(
        f"did not return within {seconds:g} s",
        "",
        "If it is only slow, give it smaller inputs, or longer with --timeout SECONDS.",
        _place(dump),
    )


def of_memory(limit: int, dump: str) -> Death:
    """More resident memory than is good for the machine."""
    size = f"{limit / 2**30:.1f} GiB"
    return Death(
        f"filled the memory: more than {size} resident",
        "It was stopped before the machine was.",
        "If it needs that much, give it smaller inputs.",
        _place(dump),
    )


def event(
    begun: Begun, phase: Phase, death: Death, known: Judgement | None = None
) -> Judged | Failed:
    """What to tell of a subject in whose `phase` the process died.

    Making inputs is not yet the subject's own doing, so that is a failure to run.
    What was `known` of it by then stays.
    """
    if not phase.code:
        return Failed(begun.target, failure(phase, death))
    if phase.name == DIAGNOSIS and known is not None and known.verdict.stands:
        return Judged(_without_diagnosis(known, death))
    title = f"{phase.name} {death.words}"
    asked = page(phase.code).title
    detail = f"{death.detail} It ran for the law: {asked}.".lstrip()
    where = death.where or (Location(begun.file, begun.line) if begun.file else None)
    evidence = Evidence(False, f"{title}\n{detail}", {"phase": phase.name})
    outcome = Outcome(phase.code, asked, "inputs", Status.CRASHED, (evidence,))
    finding = Finding(phase.code, Severity.ERROR, title, detail, where, death.remedy)
    if known is None:
        known = Judgement(begun.name, begun.file, begun.line, Verdict.CRASHED)
    return Judged(
        dataclasses.replace(
            known,
            verdict=Verdict.CRASHED,
            outcomes=(*known.outcomes, outcome),
            findings=(finding, *known.findings),
        )
    )


def _without_diagnosis(known: Judgement, death: Death) -> Judgement:
    """The verdict stands; the search for its reason is what ended."""
    said = f"the diagnosis ended early: it {death.words}"
    first, *others = known.findings
    first = dataclasses.replace(first, words=f"{first.words}\n{said}")
    return dataclasses.replace(known, findings=(first, *others))


def failure(phase: Phase, death: Death) -> str:
    """The same in words, where there is no subject yet."""
    doing = {"import": "importing it", "inputs": "making its inputs"}
    place = f" (at {death.where.file}:{death.where.line})" if death.where else ""
    said = f"{doing.get(phase.name, phase.name)} {death.words}{place}. {death.detail}"
    return said.rstrip()


def _place(dump: str) -> Location | None:
    """The innermost of the user's frames; `faulthandler` lists that one first."""
    current = dump.partition("Current thread ")[2] or dump
    for file, line in _FRAME.findall(current):
        if not is_foreign(file):
            return Location(file, int(line))
    return None
