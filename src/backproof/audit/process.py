"""A process under audit, from its start to the report that it leaves behind.

    backproof audit ──starts──> the program, and whatever Python it starts in turn
            └──────reads──────── PID.json, PID.met, PID.running in one folder

Nothing is loaded before torch is, and nothing is said on the program's own streams.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backproof.audit.journal import Journal
from backproof.audit.settings import Settings
from backproof.audit.watching import Watching

if TYPE_CHECKING:
    from backproof.report import Report

FOLDER, SETTINGS = "BACKPROOF_AUDIT_FOLDER", "BACKPROOF_AUDIT_SETTINGS"
"""Of the environment: where reports go, and what the audit was told."""

STOPPED = ".stopped"
"""Ending of the file that a process leaves which was interrupted when its time was over."""

_IN_A_FORK = (
    "it ran in a forked process, in which torch may hang; a program that starts its "
    "processes by spawn is verified"
)
_FOR_OTHERS = 600.0  # seconds that a rank waits for those whose program goes on
_GRACE = 10.0  # seconds that a program has to end after it was interrupted


def begin() -> None:
    """Watch this process, if its environment says so."""
    folder = os.environ.get(FOLDER)
    if folder:
        told = Settings.from_json(os.environ.get(SETTINGS, Settings().to_json()))
        process = _Process(Path(folder), told)
        process.begin()
        _this.append(process)


def verify_now() -> None:
    """Verify what this process has called so far, if it is under audit."""
    for process in _this:
        if not process.forked:
            process.watching.verify(last=False)


class _Process:
    """This one.

    Attributes:
        watching: what is seen in it.
        forked: whether it is a copy of one that was being watched.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder, self._settings = folder, settings
        self.watching = self._new()
        self.forked = self._done = False
        self._timer: threading.Timer | None = None
        self._status: Callable[[str], None] = lambda words: None
        self._exit: Any = os._exit

    def begin(self) -> None:
        self.watching.start()
        atexit.register(self._finish)
        os.register_at_fork(after_in_child=self._after_fork)
        os._exit = self._leave  # type: ignore[assignment]
        if self._settings.stop_after is not None:
            seconds = min(self._settings.stop_after, threading.TIMEOUT_MAX)
            self._timer = threading.Timer(seconds, self._stop)
            self._timer.daemon = True
            self._timer.start()

    def _new(self) -> Watching:
        journal = Journal(self._folder / "process")
        return Watching(self._settings, journal, self._tell)

    def _after_fork(self) -> None:
        """What the parent has seen is the parent's; replays could hang in here."""
        self.forked, self._done = True, False
        self.watching.start_over()

    def _leave(self, code: int) -> None:
        self._finish()
        self._exit(code)

    def _stop(self) -> None:
        """The time that was given is over: as Ctrl-C, but it is no failure."""
        main = threading.main_thread()
        if self._done or not main.is_alive():
            return
        with suppress(OSError):
            (self._folder / f"{os.getpid()}{STOPPED}").touch()
        sys.excepthook = _silent(sys.excepthook)
        if main.ident is not None and hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main.ident, signal.SIGINT)  # it may sleep
        else:
            signal.raise_signal(signal.SIGINT)
        main.join(_GRACE)
        if main.is_alive() and not self._done:
            self._leave(0)

    def _finish(self) -> None:
        if self._done:
            return
        self._done = True
        if self._timer is not None:
            self._timer.cancel()
        recording = self.watching.recording
        if recording is None or not (recording.ledgers or self._has_other_ranks()):
            self.watching.stop()
            return
        because = _IN_A_FORK if self.forked else ""
        try:
            with self._showing():
                if not self.forked:
                    self.watching.verify()
        except KeyboardInterrupt:
            because = "the verification was interrupted"
        except Exception as error:  # a defect of ours must not cost what is known
            because = f"the verification failed: {type(error).__name__}: {error}"
        report = None
        # The folder is gone when the program left this process behind.
        with _uninterrupted(), suppress(FileNotFoundError):
            report = self.watching.report(because=because)
            self.watching.stop()
            if report is not None:
                part = self._folder / f"{os.getpid()}.json"
                partial = part.with_suffix(".partial")
                partial.write_text(report.to_json(indent=None), encoding="utf-8")
                partial.replace(part)
                self._write_rank()
        if report is not None:
            with suppress(KeyboardInterrupt):
                self._end_together(report)
        _end_as_before()

    def _has_other_ranks(self) -> bool:
        """Whether others wait for this one, which may have called nothing itself."""
        from backproof.audit.ranks.circle import distributed

        return not self.forked and distributed() is not None

    def _write_rank(self) -> None:
        """Which rank it was, for whoever reports."""
        rank, size = self.watching.together
        if size > 1:
            file = self._folder / f"{os.getpid()}.rank"
            file.write_text(json.dumps([rank, size]), encoding="utf-8")

    def _end_together(self, report: Report) -> None:
        """A launcher ends all ranks when one fails; so none may before all are over."""
        if self.watching.together[1] > 1 and any(
            one.verdict.stands for one in report.subjects
        ):
            self.watching.wait_for_all(_FOR_OTHERS)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is over already

    def _tell(self, name: str, done: int, of: int) -> None:
        self._status(f"backproof: verifying {name} ({done + 1} of {of})")

    @contextmanager
    def _showing(self) -> Iterator[None]:
        """A line on a terminal for who waits; nothing anywhere else."""
        if not sys.stderr or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console

        console = Console(file=sys.stderr)
        with console.status("backproof: verifying") as status:
            self._status = status.update
            yield


_this: list[_Process] = []


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """A second Ctrl-C ends the verification, and not the writing of what is known."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end_as_before() -> None:
    """A program that Ctrl-C has ended says so by its exit code.

    CPython notes that in a flag which code from a string resets, and a dataclass is made
    by such code; only such code sets it again.
    """
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")


def _silent(hook: Callable[..., Any]) -> Callable[..., Any]:
    def quiet(kind: type[BaseException], *rest: Any) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            hook(kind, *rest)

    return quiet
