"""The ranks of a program: whether there are several, and what they exchange.

Exchanges have a process group of their own over gloo, whatever the program uses for
itself. Whether all are there is asked of the store that the ranks met at, since that
can say who is missing, and never waits longer than it is told to.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from backproof.audit.ranks import private

PATIENCE = 30.0
"""Seconds that the others wait for a rank by default."""

_numbers = (
    itertools.count()
)  # of circles; the same on all ranks, who make them together
_SHORT, _LONG = 0.002, 0.1  # seconds between two looks at who has arrived
_GONE = "gone"


class Apart(Exception):
    """The ranks are not together, or no longer; the text says why."""


def distributed() -> Any:
    """torch.distributed where this process is one of several ranks, else None."""
    found = sys.modules.get("torch.distributed")
    if found is None or not found.is_available() or not found.is_initialized():
        return None
    return found if found.get_world_size() > 1 else None


class Circle:
    """All ranks of the default process group.

    Attributes:
        rank: this one.
        size: how many there are.
        world: the default process group that it was made of.
        broken: why nothing can be exchanged any more; empty while it can.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._distributed = distributed()
        self.rank: int = self._distributed.get_rank()
        self.size: int = self._distributed.get_world_size()
        self.world = self._distributed.group.WORLD
        self.broken = ""
        self._patience = patience
        self._meetings = itertools.count()
        self._group: Any = None
        store = private.default_store()
        if store is None:
            self.broken = f"torch {torch.__version__} does not tell where its ranks met"
        else:
            prefix = f"backproof/{next(_numbers)}"
            self._store = self._distributed.PrefixStore(prefix, store)

    @property
    def leads(self) -> bool:
        """Whether this rank decides and reports."""
        return self.rank == 0

    def meet(self, longer: float = 0.0) -> None:
        """Wait until all ranks are here, `longer` seconds more than usual at most.

        Raises:
            Apart: one of them is not, or has given up on the others.
        """
        if self.broken:
            raise Apart(self.broken)
        with self._unbroken("the ranks could not meet"):
            self.await_all(f"meeting {next(self._meetings)}", self._patience + longer)
            if self._group is None:
                self._group = self._distributed.new_group(
                    backend="gloo", timeout=dt.timedelta(seconds=self._patience)
                )

    def await_all(self, what: str, seconds: float) -> None:
        """Say that this rank has come to `what`, and wait for the others.

        Raises:
            Apart: one of them has not within `seconds`, or has left.
        """
        keys = [f"{what}/{rank}" for rank in range(self.size)]
        self._store.set(keys[self.rank], b"")
        end, pause = time.monotonic() + seconds, _SHORT
        while not self._store.check(keys):
            self._ask_who_left()
            if time.monotonic() > end:
                late = [r for r, key in enumerate(keys) if not self._store.check([key])]
                why = f"{ranks_in_words(late)} did not arrive within {seconds:g} s"
                self.leave(why)
                raise Apart(why)
            time.sleep(pause)
            pause = min(_LONG, 2 * pause)

    def leave(self, why: str) -> None:
        """Tell the others not to wait for this rank."""
        if not self.broken:
            self.broken = why
            try:
                self._store.set(_GONE, why.encode())
            except RuntimeError:  # the store went before
                return

    def exchange(self, value: Any) -> list[Any]:
        """What each rank gave, on every rank."""
        values: list[Any] = [None] * self.size
        with self._unbroken("a rank ended, or fell behind, in an exchange"):
            self._distributed.all_gather_object(values, value, group=self._group)
        return values

    def hand_out(self, values: list[Any] | None) -> Any:
        """One value for each rank from rank 0, whose list it is."""
        mine: list[Any] = [None]
        with self._unbroken("a rank ended, or fell behind, in a replay"):
            self._distributed.scatter_object_list(mine, values, 0, group=self._group)
        return mine[0]

    def hand_in(self, value: Any) -> list[Any]:
        """What each rank gave, on rank 0; nothing elsewhere."""
        values: list[Any] | None = [None] * self.size if self.leads else None
        with self._unbroken("a rank ended, or fell behind, in a replay"):
            self._distributed.gather_object(value, values, 0, group=self._group)
        return values or []

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """The program's own groups give up before we do: a replay must not hang."""
        waits = list(private.group_timeouts(self._group))
        for backend, _ in waits:
            backend._set_default_timeout(dt.timedelta(seconds=self._patience / 2))
        try:
            yield
        finally:
            for backend, before in waits:
                backend._set_default_timeout(before)

    def _ask_who_left(self) -> None:
        if self._store.check([_GONE]):
            self.broken = self._store.get(_GONE).decode()
            raise Apart(self.broken)

    @contextmanager
    def _unbroken(self, what: str) -> Iterator[None]:
        """Whatever torch says of ranks that are not there, said once and for all."""
        try:
            yield
        except RuntimeError as error:
            said = re.sub(r"^\[.*?\]\s*", "", str(error).strip())  # a place in gloo
            first = (said or type(error).__name__).splitlines()[0].partition(". ")[0]
            self.leave(f"{what}: {first}")
            raise Apart(self.broken) from error


def ranks_in_words(ranks: Sequence[int]) -> str:
    """Such as `rank 1` or `ranks 0, 2 and 3`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
