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

_MOMENT = 2.0  # seconds in which the others' processes end as well


@contextmanager
def ending_together(ranks: int) -> Iterator[None]:
    """Report undisturbed, then give the others a moment; nothing for one rank."""
    if ranks < 2:
        yield
        return
    told: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    try:
        yield
        end = time.monotonic() + _MOMENT
        while not told and time.monotonic() < end:
            time.sleep(_MOMENT / 100)
    finally:
        if not told:  # else the launcher is at it, and our code is to be ours
            signal.signal(signal.SIGTERM, before)
