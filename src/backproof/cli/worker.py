"""The worker: a process that loads torch once and forks a fresh child a request.

    command ──request──> nursery ──fork──> child: imports the user's file, judges it
       <───────────────── events ────────────┘

Loading torch takes more than a second and a fork takes milliseconds, so each file gets
a clean process at no cost. The nursery itself never runs a tensor operation: a fork
after torch has started its threads would hang. Where forking is not safe (everywhere
but on Linux) there is no child: the process serves one request and ends.

Run as `python -m backproof.cli.worker MODE REQUESTS EVENTS DUMP PARENT`: three
inherited file descriptors and the command's process id. Standard output is the
command's standard error, so that nothing the user's file prints gets among the events.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from backproof.cli.events import (
    Broken,
    Event,
    Exited,
    Forked,
    Ready,
    Request,
    decode,
    encode,
)

Serve = Callable[[Request, Callable[[Event], None]], None]

# What torch imports at the first backward; loaded here, it is loaded once for all.
_FIRST_USE = ("torch.fx.experimental.symbolic_shapes", "numpy.random")
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


def main(mode: str, requests: int, events: int, dump: int, parent: int) -> None:
    """Serve requests until there are no more, or the command is gone."""
    for descriptor in (requests, events, dump):
        os.set_inheritable(descriptor, False)
    _die_with(parent)
    try:
        import torch

        from backproof.cli.work import serve
    except ImportError as error:
        _say(events, Broken(_unusable(error)))
        return
    for name in _FIRST_USE:
        with suppress(ImportError):
            import_module(name)
    _say(events, Ready(str(torch.__version__)))
    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            request = decode(line)
            if not isinstance(request, Request):
                continue
            if mode == "direct":
                _serve(serve, request, events, dump)
            child = os.fork()
            if child == 0:
                lines.close()
                _die_with(os.getppid())
                os.setpgid(0, 0)  # whatever it starts can be ended with it
                _serve(serve, request, events, dump)
            _, status = os.waitpid(child, 0)
            _say(events, Exited(os.waitstatus_to_exitcode(status)))


def _serve(serve: Serve, request: Request, events: int, dump: int) -> NoReturn:
    """Serve `request` and end this process, whatever happens."""
    os.ftruncate(dump, 0)
    os.lseek(dump, 0, os.SEEK_SET)
    faulthandler.enable(dump)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # gigabytes, in the user's folder
    code = 1
    try:
        _say(events, Forked(os.getpid()))
        serve(request, lambda event: _say(events, event))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # threads that the user's code left must not hold it up


def _say(descriptor: int, event: Event) -> None:
    rest = memoryview(encode(event))
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _die_with(parent: int) -> None:
    """End with `parent`, also when that is killed. Only Linux offers this."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _unusable(error: ImportError) -> str:
    from backproof.target.importing import TORCH_MISSING

    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return TORCH_MISSING
    return f"torch does not import: {error}"


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
