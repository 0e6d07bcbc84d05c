"""Run requests in a worker process, and outlive whatever happens to it.

The command watches from outside: how long the worker has been silent, how much memory
it holds, how it ended. A subject that takes its process down gets a verdict from that;
a fresh process goes on with the next one.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

from backproof.cli import crash
from backproof.cli.events import (
    Begun,
    Broken,
    Done,
    Drafted,
    Event,
    Exited,
    Failed,
    Judged,
    Known,
    Phase,
    Ready,
    Request,
    Skipped,
)
from backproof.cli.memory import resident_bytes, usable_bytes
from backproof.cli.process import Worker
from backproof.errors import BadInput

_POLL = 0.05  # seconds between looks at the worker's memory
_START = 300.0  # seconds to load torch: a cold network disk takes a while
_SHARE = 0.8  # of the memory that this machine, or this container, has


@dataclass(frozen=True)
class Limits:
    """What one subject may use.

    Attributes:
        seconds: without a sign of life, that is in one call of forward or backward.
        resident: bytes of memory.
    """

    seconds: float = 60.0
    resident: int = field(default_factory=lambda: int(_SHARE * usable_bytes()))


class _Silence:
    """How long a worker has said nothing, and how long it may.

    Attributes:
        limit: seconds that the phase it is in may take.
    """

    def __init__(self, usual: float) -> None:
        self.limit = self._usual = usual
        self._since = time.monotonic()

    def ends(self, message: Event) -> None:
        """The worker has said `message`."""
        self._since = time.monotonic()
        if isinstance(message, Phase):
            self.limit = self._usual * message.patience

    def is_long(self) -> bool:
        """Whether something hangs."""
        return time.monotonic() - self._since > self.limit


class Isolation:
    """A worker process, replaced whenever it is lost; a context manager.

    Attributes:
        torch: the version of torch in the worker, None before one has started.
    """

    def __init__(self, limits: Limits, *, mode: str | None = None) -> None:
        self.torch: str | None = None
        self._limits = limits
        self._mode = mode or ("fork" if sys.platform == "linux" else "direct")
        self._worker: Worker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def serve(self, request: Request, emit: Callable[[Event], None]) -> None:
        """Serve `request`, telling `emit` what happens.

        Raises:
            BadInput: torch cannot be loaded.
        """
        rest: Request | None = request
        while rest is not None:
            rest = self._attempt(rest, emit)

    def _attempt(
        self, request: Request, emit: Callable[[Event], None]
    ) -> Request | None:
        """Serve until the end or until the worker dies; return what is left to do."""
        worker = self._ready_worker()
        worker.send(request)
        phase = Phase("import")
        last = running = known = None
        for message in self._watched(worker):
            if isinstance(message, crash.Death):
                if running is not None:
                    emit(crash.event(running, phase, message, known))
                elif last is None:
                    emit(Failed(request.place.text, crash.failure(phase, message)))
                return _after(last, request)
            emit(message)
            if isinstance(message, Phase):
                phase = message
            elif isinstance(message, Begun):
                last = running = message
                known = None
            elif isinstance(message, Known):
                known = message.judgement
            elif isinstance(message, (Judged, Failed)):
                running = None
        return None

    def _watched(
        self, worker: Worker
    ) -> Iterator[
        Phase | Begun | Known | Drafted | Judged | Failed | Skipped | crash.Death
    ]:
        """What the worker says, and how it died if it did not finish."""
        done = False
        silence = _Silence(self._limits.seconds)
        next_look = time.monotonic()
        while True:
            message = worker.receive(_POLL)
            if isinstance(message, Exited):
                worker.end_group()
                if not done:
                    yield crash.of_exit(message.code, worker.dump())
                return
            if message is not None:
                silence.ends(message)
            if isinstance(message, Done):
                done = True
            elif isinstance(
                message, (Phase, Begun, Known, Drafted, Judged, Failed, Skipped)
            ):
                yield message
            if time.monotonic() >= next_look:
                death = self._excess(worker, silence)
                next_look = time.monotonic() + _POLL
                if death is not None:
                    if not done:
                        yield death
                    return

    def _excess(self, worker: Worker, silence: _Silence) -> crash.Death | None:
        """End a worker that takes too long or too much; None where it is well."""
        if silence.is_long():
            return crash.of_hang(silence.limit, worker.abort())
        if worker.child and resident_bytes(worker.child) > self._limits.resident:
            return crash.of_memory(self._limits.resident, worker.abort())
        return None

    def _ready_worker(self) -> Worker:
        if self._worker is not None and self._worker.alive():
            return self._worker
        self._drop()
        worker = self._worker = Worker(self._mode)
        message = worker.receive(_START)
        if isinstance(message, Ready):
            self.torch = message.torch
            return worker
        if isinstance(message, Broken):
            raise BadInput(message.reason)
        raise BadInput(
            f"the worker process does not start: {message or 'it is silent'}; "
            "--no-isolate does without one"
        )

    def _drop(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def _after(last: Begun | None, request: Request) -> Request | None:
    """The rest of `request` behind the subject that was begun last."""
    if last is None or last.index + 1 >= last.count:
        return None
    return dataclasses.replace(request, start=last.index + 1)
