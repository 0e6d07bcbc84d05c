"""How every benchmark here runs: options, worker processes, time limits, tables.

The figures do not depend on `--jobs`: each task is seeded by itself, and results are
taken in the order of the tasks. `each` shares workers among the tasks; `apart` gives
each task a process, so that one which dies or hangs takes no other along.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import random
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}

Row = dict[str, Any]


def parser(doc: str, *, jobs: bool = True, out: bool = True) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks share; `doc` is the help text."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--quick", action="store_true", help="a small sample, under a minute"
    )
    made.add_argument("--seed", type=int, default=0, help="of the checks (default: 0)")
    if jobs:
        made.add_argument(
            "--jobs",
            type=int,
            default=min(2, os.cpu_count() or 1),
            help="worker processes of one thread each (default: %(default)s)",
        )
    if out:
        made.add_argument(
            "--out", type=Path, help="write every measurement to this file, JSON lines"
        )
    return made


def each(
    work: Callable[[Any], Any], tasks: Sequence[Any], *, jobs: int, words: str
) -> Iterator[Any]:
    """`work(task)` for every task, in order, with a counter while it runs."""
    if jobs <= 1 or len(tasks) <= 1:
        prepare()
        yield from _counted(map(work, tasks), len(tasks), words)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, initializer=prepare) as pool:
        chunk = max(1, min(8, len(tasks) // (8 * jobs)))
        results = pool.map(work, tasks, chunksize=chunk)
        yield from _counted(results, len(tasks), words)


def apart(
    work: Callable[[Any], Any],
    tasks: Sequence[Any],
    *,
    lost: Callable[[Any, str], Any],
    limit: float,
    jobs: int,
    words: str,
    preload: Sequence[str] = (),
) -> Iterator[Any]:
    """`work(task)` for every task, in order, each in a fresh process.

    Where that dies, or takes more than `limit` seconds, the result is `lost(task, why)`.
    Processes are forks of one that has loaded torch and the modules of `preload`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", *preload])

    def one(task: Any) -> Any:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_send, args=(sender, work, task))
        process.start()
        sender.close()
        try:
            return _received(receiver, process, limit)
        except _Lost as why:
            return lost(task, str(why))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and what it has started
            process.kill()
            process.join()

    with ThreadPoolExecutor(jobs) as pool:
        yield from _counted(pool.map(one, tasks), len(tasks), words)


class _Lost(Exception):
    """A process ended, or was late, before it gave a result."""


def _send(sender: Connection, work: Callable[[Any], Any], task: Any) -> None:
    """What a process of `apart` does."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    prepare()
    try:
        result = (True, work(task))
    except Exception:
        result = (False, traceback.format_exc())
    sender.send(result)
    os.kill(os.getpid(), signal.SIGKILL)  # threads left behind must not hold it up


def _received(receiver: Connection, process: BaseProcess, limit: float) -> Any:
    if not wait([receiver, process.sentinel], limit):
        raise _Lost(f"over {limit:g} s")
    try:
        fine, result = receiver.recv()
    except EOFError:
        process.join()
        raise _Lost(_death(process.exitcode)) from None
    if not fine:
        raise RuntimeError(f"in a worker:\n{result}")
    return result


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit {code}"


def prepare() -> None:
    """One thread, no warnings: the same in this process and in every worker."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")


def seed_everything(seed: int) -> None:
    """The generators that PyTorch's sample inputs and user code draw from."""
    torch.manual_seed(seed)
    random.seed(seed)
    with contextlib.suppress(ImportError):
        import numpy as np

        np.random.seed(seed)


class TimeLimit(BaseException):
    """Not an Exception, so that what is measured cannot take it for its own."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeLimit` inside the block after `seconds` of wall clock."""

    def stop(*_: object) -> None:
        raise TimeLimit

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def write_rows(path: Path | None, rows: Iterable[Row]) -> None:
    """One JSON object a line; nothing where no path was given."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    print(f"\n{path}: every measurement, one a line")


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[object]]
) -> None:
    """The rows in columns: text to the left, numbers to the right."""
    cells = [[_text(value) for value in row] for row in rows]
    widths = [
        max(len(line[k]) for line in [list(header), *cells]) for k in range(len(header))
    ]
    right = [
        k > 0 and all(_is_number(line[k]) for line in cells) for k in range(len(header))
    ]
    print(f"\n{title}\n")
    for line in [list(header), ["-" * width for width in widths], *cells]:
        print(
            "  ".join(
                text.rjust(width) if to_right else text.ljust(width)
                for text, width, to_right in zip(line, widths, right, strict=True)
            ).rstrip()
        )


def share(part: int, whole: int) -> str:
    """`3/40  7.5 %`, or a dash where there was nothing to count."""
    return f"{part}/{whole} {100 * part / whole:5.1f} %" if whole else "-"


def listed(names: Iterable[str], most: int = 8) -> str:
    """The first few names, how many more there are, or `none`."""
    named = list(dict.fromkeys(names))
    rest = len(named) - most
    words = ", ".join(named[:most]) or "none"
    return f"{words} and {rest} more" if rest > 0 else words


@dataclass(frozen=True)
class Target:
    """What a benchmark must show.

    A `--quick` run fails only for what must hold `always`: a share of a small sample,
    or a time on a busy machine, proves nothing.
    """

    words: str
    met: bool
    always: bool = True


def judge_targets(targets: Sequence[Target], *, quick: bool) -> int:
    """Print which targets are met; the exit status is 1 where one is missed."""
    print()
    missed = False
    for target in targets:
        judged = target.always or not quick
        missed |= judged and not target.met
        word = "met   " if target.met else "MISSED" if judged else "missed"
        why = "" if judged or target.met else " (not judged in a quick run)"
        print(f"{word}  {target.words}{why}")
    return int(missed)


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        return f"{value:.3g}"
    return str(value)


def _is_number(text: str) -> bool:
    return text in ("", "inf", "nan") or not set(text) - set("0123456789.,+-/e% ")


def _counted(results: Iterable[Any], total: int, words: str) -> Iterator[Any]:
    shown = sys.stderr.isatty()
    for done, result in enumerate(results, 1):
        if shown:
            print(f"\r{words}: {done} of {total} ", end="", file=sys.stderr, flush=True)
        yield result
    if shown:
        print("\r\033[K", end="", file=sys.stderr)
