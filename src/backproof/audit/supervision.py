"""Run a command under audit, and gather what its processes have left behind.

Nothing of the program runs in this process, so whatever becomes of the program, there
is somebody to report. Imports no torch.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from backproof.audit.journal import last_entry, met
from backproof.audit.process import FOLDER, SETTINGS
from backproof.audit.settings import Settings
from backproof.codes import page
from backproof.errors import BadInput
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
from backproof.report import Report
from backproof.report.environment import environment
from backproof.report.merging import merged_reports

_GRADIENT = "BP101"
_CHILD = Path(__file__).parent / "child"
_PATIENCE = 90.0  # seconds that a program has to verify and end when its time is over


@dataclass(frozen=True)
class Audited:
    """What became of the program, and what is known of its Functions.

    Attributes:
        exit_code: the program's own, 128 + n where signal n ended it; 0 where it was
            stopped because its time was over.
        report: None where no process loaded torch and backproof.
    """

    exit_code: int
    report: Report | None


def audit(command: Sequence[str], settings: Settings) -> Audited:
    """Run `command` unchanged, with every Python under it watched.

    Raises:
        BadInput: it cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="backproof-audit-") as name:
        folder = Path(name)
        start = time.monotonic()
        stop = settings.stop_after
        process, code = _run(command, _environment(folder, settings), stop)
        if stop is not None and time.monotonic() - start >= stop and _interrupted(code):
            code = 0
        return Audited(
            128 - code if code < 0 else code, _gathered(folder, process, code)
        )


def _interrupted(code: int) -> bool:
    return code in (-signal.SIGINT, 128 + signal.SIGINT, 0, 1)


def _environment(folder: Path, settings: Settings) -> dict[str, str]:
    given = dict(os.environ)
    before = given.get("PYTHONPATH")
    given["PYTHONPATH"] = os.pathsep.join([str(_CHILD), *([before] if before else [])])
    given[FOLDER], given[SETTINGS] = str(folder), settings.to_json()
    return given


def _run(
    command: Sequence[str], environment: dict[str, str], stop: float | None
) -> tuple[int, int]:
    """The process and its exit code.

    A program stops itself after `stop` seconds, unless it has never loaded torch.
    """
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise BadInput(f"{command[0]}: cannot be run: {error.strerror}") from error
    with _passing_on(process):
        for does in (process.terminate, process.kill):
            try:
                wait = None if stop is None else stop + _PATIENCE
                return process.pid, process.wait(wait)
            except subprocess.TimeoutExpired:
                does()
                stop = 0.0
        return process.pid, process.wait()


@contextmanager
def _passing_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ctrl-C reaches the program by itself; what is sent to us alone is handed on."""

    def hand_on(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(number)

    handlers: dict[int, Any] = {signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: hand_on}
    before = {number: signal.signal(number, does) for number, does in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _gathered(folder: Path, process: int, code: int) -> Report | None:
    parts = [
        Report.from_json(file.read_text(encoding="utf-8"))
        for file in sorted(folder.glob("*.json"))
    ]
    lost = [
        _left_behind(file, code if _process_of(file) == str(process) else None)
        for file in sorted(folder.glob("*.met"))
        if not (folder / f"{_process_of(file)}.json").exists()
    ]
    if lost and not parts:
        made = environment(torch=None, seed=0)
        parts = [Report(made)]
    if lost:
        subjects = tuple(subject for one in lost for subject in one)
        parts.append(Report(parts[0].environment, subjects))
    return merged_reports(parts)


def _left_behind(file: Path, code: int | None) -> list[Judgement]:
    """The Functions of a process that ended before it could verify, or while it did.

    Of a process that the program started itself nobody knows how it ended.
    """
    running = last_entry(file.with_suffix(".running"))
    words = f"the process that called it {_ended(code)} before it could be verified"
    found = []
    for name, place, line in met(file):
        at_it = running is not None and (running.name, running.file) == (name, place)
        if running is not None and at_it and code is not None:
            found.append(_crashed(name, place, line, running.phase, running.code, code))
            continue
        said = words
        if at_it:
            said = "the process that called it ended, or was ended, during its replay"
        elif running is not None:
            said = f"not reached: a replay of {running.name} ended the process"
        law = page(_GRADIENT).title
        outcome = Outcome(
            _GRADIENT, law, "recorded calls", Status.INCONCLUSIVE, (undecided(said),)
        )
        verdict = Verdict.INCONCLUSIVE
        found.append(
            Judgement(
                name, place, line, verdict, outcomes=(outcome,), usage=Usage(0, 0, 0)
            )
        )
    return found


def _crashed(
    name: str, file: str, line: int | None, phase: str, law: str, code: int
) -> Judgement:
    title = f"{phase} {_ended(code)}"
    asked = page(law).title
    words = f"It was replayed for the law: {asked}."
    where = Location(file, line) if file else None
    outcome = Outcome(law, asked, "recorded calls", Status.CRASHED, (broken(title),))
    remedy = (
        "Call it alone on the same inputs, with the native debugger of your platform."
    )
    finding = Finding(law, Severity.ERROR, title, words, where, remedy)
    return Judgement(
        name,
        file,
        line,
        Verdict.CRASHED,
        outcomes=(outcome,),
        findings=(finding,),
        usage=Usage(0, 0, 0),
    )


def _ended(code: int | None) -> str:
    if code is None:
        return "ended"
    if code >= 0:
        return f"ended the process with exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-code, f'signal {-code}')}"


def _process_of(file: Path) -> str:
    return file.name.split(".")[1]
