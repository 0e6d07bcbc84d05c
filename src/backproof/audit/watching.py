"""The audit of one process, from before torch is loaded to its report.

Imports no torch itself: a process that never loads it is left alone.
"""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

from backproof.audit.arrival import when_imported
from backproof.audit.journal import Journal
from backproof.audit.settings import Settings

if TYPE_CHECKING:
    from backproof.audit.recording import Recording
    from backproof.audit.verification import Verification
    from backproof.records import Verdict
    from backproof.report import Report

OnFunction = Callable[[str, int, int], None]
"""Told which Function is replayed next, and how many of how many are done."""


class Watching:
    """Records from the moment at which torch arrives, and verifies when asked to.

    Attributes:
        recording: what was seen; None while torch is not there.
    """

    def __init__(
        self,
        settings: Settings,
        journal: Journal | None = None,
        on_function: OnFunction = lambda name, done, of: None,
    ) -> None:
        self.recording: Recording | None = None
        self._settings = settings
        self._journal = journal
        self._on_function = on_function
        self._verification: Verification | None = None
        self._patches = ExitStack()

    def start(self) -> None:
        """From here on, or from where torch is loaded."""
        when_imported("torch", self._begin)

    def stop(self) -> None:
        """Leave torch as it was."""
        self._patches.close()

    def start_over(self) -> None:
        """Forget what was seen: that was another process."""
        if self.recording is not None:
            self.stop()
            self._verification = None
            self._begin()

    def verify(self, *, last: bool = True) -> None:
        """Replay what was kept since the last time, quietly, and let it go.

        `last` says that nothing will come after it.
        """
        if self.recording is not None:
            with _quietly():
                self._verifying().verify(self.recording, last=last)

    @property
    def together(self) -> tuple[int, int]:
        """Which rank of how many this process was when it verified; (0, 1) for none."""
        lockstep = self._verification.lockstep if self._verification else None
        return lockstep.place if lockstep is not None else (0, 1)

    def wait_for_all(self, seconds: float) -> None:
        """Until the program is over on every rank that it verified with."""
        lockstep = self._verification.lockstep if self._verification else None
        if lockstep is not None:
            lockstep.wait_for_all(seconds)

    def fresh_verdicts(self) -> list[tuple[str, Verdict]]:
        """(name, verdict) of each Function that the last `verify` has looked at."""
        return self._verification.fresh if self._verification is not None else []

    def report(self, *, because: str = "") -> Report | None:
        """What is known by now; None where no torch was loaded.

        `because` says why calls were not replayed.
        """
        if self.recording is None:
            return None
        return self._verifying().report(self.recording, because=because)

    def _begin(self) -> None:
        from backproof.audit import hook
        from backproof.audit.ranks.destruction import before_destruction
        from backproof.audit.recording import Recording

        told = self._settings
        recording = Recording(
            calls=told.calls,
            memory=told.bytes,
            only=told.only,
            on_function=self._journal.meet if self._journal else None,
        )
        self._patches.enter_context(hook.watched(recording.watch))
        self._patches.enter_context(before_destruction(self.verify))
        self.recording = recording
        if told.when == "step":
            from torch.optim.optimizer import register_optimizer_step_post_hook

            handle = register_optimizer_step_post_hook(
                lambda *_: self.verify(last=False)
            )
            self._patches.callback(handle.remove)

    def _verifying(self) -> Verification:
        if self._verification is None:
            from backproof.audit.verification import Verification

            told = self._settings
            self._verification = Verification(
                seconds=told.seconds,
                seed=told.seed,
                journal=self._journal,
                patience=told.rank_timeout,
                on_function=self._on_function,
            )
        return self._verification


@contextmanager
def _quietly() -> Iterator[None]:
    """Replays print, log and warn a second time; that is not the program's output."""
    before = logging.root.manager.disable
    with (
        warnings.catch_warnings(),
        redirect_stdout(io.StringIO()),
        redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(sys.maxsize)
        try:
            yield
        finally:
            logging.disable(before)
