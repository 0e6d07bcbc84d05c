"""What a process was about to run, on disk, in case it does not live to tell."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC


class Entry(NamedTuple):
    """A replay in progress: the Function, where it is, the phase, and the law's code."""

    name: str
    file: str
    line: int | None
    phase: str
    code: str


class Journal:
    """Two small files a process beside `path`, none without it.

    PATH.PID.running is one line, written over before each call of a replay; PATH.PID.met
    has a line for each Function that was met.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._running: int | None = None
        self._process = 0

    def note(self, entry: Entry) -> None:
        """Say what runs next. A forked child has a file of its own."""
        if self._path is None:
            return
        if self._running is None or self._process != os.getpid():
            self._process, self._running = os.getpid(), None
            with suppress(FileNotFoundError):
                self._running = os.open(self._file("running"), _WRITE, 0o600)
        if self._running is None:
            return
        line = json.dumps(list(entry)).encode() + b"\n"
        os.pwrite(self._running, line, 0)
        os.ftruncate(self._running, len(line))

    def clear(self) -> None:
        """Nothing runs any more."""
        if self._running is not None and self._process == os.getpid():
            os.ftruncate(self._running, 0)

    def meet(self, name: str, file: str, line: int | None) -> None:
        """A Function was called for the first time; `line` is that of its forward."""
        if self._path is None:
            return
        # Nobody reads it any more where a program has left this process behind.
        with (
            suppress(FileNotFoundError),
            self._file("met").open("a", encoding="utf-8") as file_of_names,
        ):
            file_of_names.write(json.dumps([name, file, line]) + "\n")

    def _file(self, kind: str) -> Path:
        assert self._path is not None
        return self._path.with_name(f"{self._path.name}.{os.getpid()}.{kind}")


def last_entry(path: Path) -> Entry | None:
    """What a journal that was left behind says, None where nothing was running."""
    try:
        return Entry(*json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def met(path: Path) -> list[tuple[str, str, int | None]]:
    """The Functions (name, file, line) that a process has met."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            name, file, number = json.loads(line)
        except ValueError:  # it died in the middle of it
            continue
        found.append((name, file, number))
    return found
