"""An exception of the user's code, as its author wants to read it."""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path

_SCHEME = ("stdlib", "platstdlib", "purelib", "platlib")
_FOREIGN = tuple(
    f"{folder}{os.sep}"
    for folder in (Path(__file__).parents[1], *map(sysconfig.get_path, _SCHEME))
)


def shortened(error: BaseException) -> str:
    """The traceback of `error` with the user's own frames only.

    Where no frame is the user's, the innermost one is kept.
    """
    summary = traceback.TracebackException.from_exception(error)
    frames = [f for f in summary.stack if not is_foreign(f.filename)]
    if not frames and not isinstance(error, SyntaxError):
        frames = list(summary.stack)[-1:]
    lines = []
    for frame in frames:
        lines.append(
            f'  File "{near(frame.filename)}", line {frame.lineno}, in {frame.name}'
        )
        if frame.line:
            lines.append(f"    {frame.line}")
    # A syntax error names its own file, and shows the line with a caret.
    last = "".join(summary.format_exception_only()).rstrip()
    return "\n".join([*lines, last])


def own_line(error: BaseException) -> str:
    """`file:line` of the user's innermost frame; empty where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not is_foreign(f.filename)]
    return f"{near(own[-1].filename)}:{own[-1].lineno}" if own else ""


def is_foreign(file: str) -> bool:
    """Whether `file` belongs to Python, to an installed package or to backproof."""
    return file.startswith(("<", *_FOREIGN))


def near(file: str) -> str:
    """`file` relative to the working directory where it lies below it."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file
