"""The worker process as the command sees it: start, send, receive, end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

from backproof.cli.events import Event, Exited, Forked, Request, decode, encode

_GRACE = 1.0  # seconds to write a traceback after SIGABRT
_GONE = 10.0  # seconds for the kernel to take down a process with much memory


class Worker:
    """One worker process with its pipes.

    Attributes:
        child: the process that runs the user's code, 0 before it has said so.
    """

    def __init__(self, mode: str) -> None:
        self.child = 0
        self._buffer = b""
        self._dump = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._events, events = os.pipe()
        requests, self._requests = os.pipe()
        given = (requests, events, self._dump.fileno())
        self._process = subprocess.Popen(
            # -P keeps the working directory off the path: a `types.py` in it would
            # stop Python itself from starting.
            [sys.executable, "-P", "-m", "backproof.cli.worker", mode]
            + [str(number) for number in (*given, os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=2,  # what the user's code prints is no part of a report
            pass_fds=given,
            start_new_session=True,  # Ctrl-C is for the command, which then ends it
        )
        os.close(requests)
        os.close(events)

    def alive(self) -> bool:
        """Whether it can serve another request."""
        return self._process.poll() is None

    def send(self, request: Request) -> None:
        """Hand over a request; a worker that is gone is noticed by `receive`."""
        with suppress(BrokenPipeError):
            os.write(self._requests, encode(request))

    def receive(self, seconds: float) -> Event | None:
        """The next event, None after that much silence."""
        deadline = time.monotonic() + seconds
        while True:
            line, found, rest = self._buffer.partition(b"\n")
            if found:
                self._buffer = rest
                event: Event | None = decode(line)
                if isinstance(event, Forked):
                    self.child = event.pid
                if event is not None:
                    return event
                continue
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._events], [], [], left)[0]:
                return None
            data = os.read(self._events, 1 << 16)
            if not data:
                return Exited(self._process.wait())
            self._buffer += data

    def abort(self) -> str:
        """End the child, and return the traceback that it wrote if it still could."""
        target = self.child or self._process.pid
        for number, seconds in ((signal.SIGABRT, _GRACE), (signal.SIGKILL, _GONE)):
            with suppress(ProcessLookupError):
                os.kill(target, number)
            deadline = time.monotonic() + seconds
            while (left := deadline - time.monotonic()) > 0:
                if isinstance(self.receive(left), Exited):
                    self.end_group()
                    return self.dump()
        return self.dump()

    def dump(self) -> str:
        """What `faulthandler` wrote when the child died."""
        return os.pread(self._dump.fileno(), 1 << 16, 0).decode(errors="replace")

    def end_group(self) -> None:
        """End whatever the child has started and left behind."""
        if self.child:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child, signal.SIGKILL)
        self.child = 0

    def close(self) -> None:
        """End everything and release the pipes."""
        self.end_group()
        self._process.kill()
        self._process.wait()
        os.close(self._events)
        os.close(self._requests)
        self._dump.close()
