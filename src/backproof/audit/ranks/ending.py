"""How the supervisors of several ranks end, so that a launcher leaves each its own code.

A launcher that sees one rank fail ends the others by SIGTERM. Whose report is still being
written would lose it, and whose program has just ended would seem to be killed. Imports
no torch.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_MOMENT = 3.0  # seconds in which the others' processes end as well


class Ending:
    """From the end of the program on: SIGTERM is heard, and waits until all is said."""

    def __init__(self) -> None:
        self.for_good = self._told = False

    def note(self, number: int, frame: FrameType | None) -> None:
        """The launcher is at it."""
        self._told = True

    def give_others_a_moment(self) -> None:
        """Before this rank fails: their programs are over, and they are to say so."""
        self.for_good = True
        end = time.monotonic() + _MOMENT
        while not self._told and time.monotonic() < end:
            time.sleep(_MOMENT / 100)
        # A handler of our own would be taken away while the interpreter ends.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextmanager
def ending_together() -> Iterator[Ending]:
    """Around the program and its report; what the program is sent meanwhile is its own."""
    ending = Ending()
    before = signal.signal(signal.SIGTERM, ending.note)
    try:
        yield ending
    finally:
        if not ending.for_good:
            signal.signal(signal.SIGTERM, before)
