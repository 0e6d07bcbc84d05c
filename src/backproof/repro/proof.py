"""Run a draft where backproof cannot be imported; keep it if it fails as it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SECONDS = 300.0  # a compiler may take its time
_WITHOUT_US = "import sys; sys.modules['backproof'] = None; "
_RUN = "import sys, runpy; runpy.run_path(sys.argv[1], run_name='__main__')"
_FIRST_LINE = '"""BP'  # of every script, so that one may replace another


def failing(path: Path, code: str, *, needs_backproof: bool) -> str:
    """Empty where the script at `path` ends with the AssertionError of `code`.

    Otherwise the last line that it wrote, or what it did instead.

    Args:
        path: of the draft.
        code: with which its message has to begin.
        needs_backproof: whether it may import backproof, as the user's file does.
    """
    program = _RUN if needs_backproof else _WITHOUT_US + _RUN
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-B", "-c", program, str(path.resolve())],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {_SECONDS:g} s"
    errors = done.stderr.decode(errors="replace")
    raised = [x for x in errors.splitlines() if x.startswith("AssertionError: ")]
    if (
        done.returncode == 1
        and raised
        and raised[-1].startswith(f"AssertionError: {code}")
    ):
        return ""
    if done.returncode == 0:
        return "run by itself it does not fail"
    if done.returncode < 0:
        return f"run by itself it ends with signal {-done.returncode}"
    return (errors.strip().splitlines() or [f"it ends with {done.returncode}"])[-1]


def keep(draft: Path, script: Path) -> list[Path]:
    """Put `draft` and the file beside it in place; what was written, the script first."""
    kept, beside = [script], draft.with_suffix(".pt")
    if beside.exists():  # first, so that no script is there without its numbers
        beside.replace(script.resolve().with_suffix(".pt"))
        kept.append(script.with_suffix(".pt"))
    draft.replace(script.resolve())
    return kept


def is_ours(path: Path) -> bool:
    """Whether the file at `path` begins as every script of this kind does."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(len(_FIRST_LINE)) == _FIRST_LINE
    except OSError:
        return False
