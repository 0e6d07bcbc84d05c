"""What is known of the Functions of a process that did not live to report.

It has left the names that it met, and what it was about to replay (see `journal`).
Imports no torch.
"""

from __future__ import annotations

from pathlib import Path

from backproof.audit.journal import Entry, last_entry, met
from backproof.codes import page
from backproof.records import (
    Finding,
    Judgement,
    Location,
    Outcome,
    Severity,
    Status,
    Usage,
    Verdict,
    broken,
    undecided,
)

_GRADIENT = "BP101"


def left_behind(file: Path, ended: str) -> list[Judgement]:
    """A judgement for each Function that stands in `file`, the PATH.PID.met of a journal.

    Args:
        file: of a process that has ended before it could verify, or while it did.
        ended: how, as in "was killed by SIGSEGV" or "ended with exit code 3"; empty
            where nobody knows, so that no Function is accused.
    """
    running = last_entry(file.with_suffix(".running"))
    return [_judged(place, running, ended) for place in met(file)]


def _judged(
    place: tuple[str, str, int | None], running: Entry | None, ended: str
) -> Judgement:
    name, file, line = place
    at_it = running is not None and running[:2] == (name, file)
    if running is not None and at_it and ended:
        return _crashed(running, ended)
    if running is None:
        said = f"the process that called it {ended or 'ended'} before it was verified"
    elif at_it:
        said = "the process that called it ended, or was ended, during its replay"
    else:
        said = f"not reached: the process ended during a replay of {running.name}"
    law = page(_GRADIENT).title
    outcome = Outcome(
        _GRADIENT, law, "recorded calls", Status.INCONCLUSIVE, (undecided(said),)
    )
    return Judgement(
        name,
        file,
        line,
        Verdict.INCONCLUSIVE,
        outcomes=(outcome,),
        usage=Usage(0, 0, 0),
    )


def _crashed(running: Entry, ended: str) -> Judgement:
    rest = ended.removeprefix("ended")
    title = f"{running.phase} {ended if rest == ended else f'ended the process{rest}'}"
    asked = page(running.code).title
    words = f"It was replayed for the law: {asked}."
    where = Location(running.file, running.line) if running.file else None
    outcome = Outcome(
        running.code, asked, "recorded calls", Status.CRASHED, (broken(title),)
    )
    remedy = (
        "Call it alone on the same inputs, with the native debugger of your platform."
    )
    finding = Finding(running.code, Severity.ERROR, title, words, where, remedy)
    return Judgement(
        running.name,
        running.file,
        running.line,
        Verdict.CRASHED,
        outcomes=(outcome,),
        findings=(finding,),
        usage=Usage(0, 0, 0),
    )
