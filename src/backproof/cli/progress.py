"""A progress bar on standard error, for people who wait.

It shows only on a terminal, and only with more than one subject or after a second.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Self

from backproof.cli.events import Begun, Event, Failed, Judged

if TYPE_CHECKING:
    import rich.progress

_PATIENCE = 1.0  # seconds


class Progress:
    """Counts subjects; a context manager."""

    def __init__(self, num_places: int) -> None:
        self._bar: rich.progress.Progress | None = None
        self._lock = threading.Lock()
        self._on_terminal = sys.stderr.isatty()
        self._timer = threading.Timer(_PATIENCE, self._show)
        self._places_left = num_places  # each counts for one subject until it is known
        self._known = self._finished = 0
        self._name = "loading torch"
        self._closed = False

    def __enter__(self) -> Self:
        if self._on_terminal:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.stop()

    def note(self, event: Event) -> None:
        """Take in what the worker said."""
        if isinstance(event, Begun):
            if event.index == 0:
                self._known += event.count
                self._places_left -= 1
            self._name = event.name
        elif isinstance(event, (Judged, Failed)):
            self._finished += 1
        if self._on_terminal and self._total() > 1:
            self._show()
        self._update()

    def _total(self) -> int:
        return max(self._known + self._places_left, self._finished)

    def _show(self) -> None:
        with self._lock:
            if self._bar is not None or self._closed:
                return
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}", table_column=None),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.add_task(self._name, total=self._total())
            self._bar.start()

    def _update(self) -> None:
        if self._bar is not None:
            self._bar.update(
                self._bar.task_ids[0],
                description=self._name,
                total=self._total(),
                completed=self._finished,
            )
