"""Which lines of a function run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from backproof.source.plain_function import plain_function


def lines_run(function: Any, call: Callable[[], object]) -> list[int]:
    """Run `call` and list the lines that ran in frames of `function`, in order.

    Lines count from 1 in the function's file; one that runs twice is listed twice. Only
    this thread is watched, in which autograd also runs a backward on the CPU. Empty where
    `function` is not Python's, and where a debugger or a coverage tool traces already:
    they are never disturbed.

    Raises:
        Exception: whatever `call` raises; tracing has ended then, too.
    """
    plain = plain_function(function)
    if plain is None or sys.gettrace() is not None:
        call()
        return []
    code = plain.__code__
    lines: list[int] = []

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return step if frame.f_code is code else None

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            lines.append(frame.f_lineno)
        return step

    sys.settrace(enter)
    try:
        call()
    finally:
        if sys.gettrace() is enter:  # else `call` has started a debugger
            sys.settrace(None)
    return lines
