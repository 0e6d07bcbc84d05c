"""Run a command under audit, and gather what its processes have left behind.

Nothing of the program runs in this process, so whatever becomes of the program, there
is somebody to report. Imports no torch.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from backproof.audit.left_behind import left_behind
from backproof.audit.process import FOLDER, SETTINGS, STOPPED
from backproof.audit.settings import Settings
from backproof.errors import BadInput
from backproof.report import Report
from backproof.report.environment import environment
from backproof.report.merging import merged_reports

_CHILD = Path(__file__).parent / "child"
_PATIENCE = 90.0  # seconds that a program has to verify and end when its time is over


@dataclass(frozen=True)
class Audited:
    """What became of the program, and what is known of its Functions.

    Attributes:
        exit_code: the program's own, 128 + n where signal n ended it; 0 where it was
            stopped because its time was over.
        report: None where no process loaded torch and backproof.
        rank: which rank's program this was, the lowest where it was several; 0 is the
            one that reports for all.
        ranks: how many verified together.
    """

    exit_code: int
    report: Report | None
    rank: int = 0
    ranks: int = 1


def audit(command: Sequence[str], settings: Settings) -> Audited:
    """Run `command` unchanged, with every Python under it watched.

    Raises:
        BadInput: it cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="backproof-audit-") as name:
        folder = Path(name)
        environment = _environment(folder, settings)
        process, code = _run(command, environment, settings.stop_after)
        if _interrupted(code) and any(folder.glob(f"*{STOPPED}")):
            code = 0
        rank, ranks = _place(folder)
        report = _gathered(folder, process, code)
        return Audited(128 - code if code < 0 else code, report, rank, ranks)


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


def _place(folder: Path) -> tuple[int, int]:
    """The lowest rank among the processes, and how many verified together."""
    places = [json.loads(f.read_text(encoding="utf-8")) for f in folder.glob("*.rank")]
    rank, ranks = min(places, default=(0, 1))
    return rank, ranks


def _gathered(folder: Path, process: int, code: int) -> Report | None:
    # Ranks that one command started have all written the same.
    ranks = sorted(folder.glob("*.rank"))
    again = {file.with_suffix(".json") for file in ranks[1:]}
    parts = [
        Report.from_json(file.read_text(encoding="utf-8"))
        for file in sorted(folder.glob("*.json"))
        if file not in again
    ]
    lost = [
        left_behind(file, _ended(code) if _process_of(file) == str(process) else "")
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


def _ended(code: int) -> str:
    """How the program's first process ended; of those that it started nobody knows."""
    if code >= 0:
        return f"ended with exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-code, f'signal {-code}')}"


def _process_of(file: Path) -> str:
    return file.name.split(".")[1]
