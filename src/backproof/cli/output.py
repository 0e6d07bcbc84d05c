"""Where a report goes: to the terminal as it is, or to a file in one piece."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from backproof.errors import BadInput
from backproof.report import Report
from backproof.report.files import write_whole
from backproof.report.layout import wrapped
from backproof.report.terminal import summary, text

_NARROW, _WIDE = 60, 100  # columns between which text is read with ease


def deliver(
    report: Report,
    form: str,
    output: Path | None,
    *,
    verbose: bool,
    interrupted: bool = False,
) -> None:
    """Write `report` as "text" or "json" to `output`, or to standard output.

    What could not be run is said on standard error too, unless the text says it there.
    With `output` a line there says what it holds, and whether it was `interrupted`; a
    report that was interrupted is shown besides.
    """
    in_text = form == "text" and output is None and report.subjects
    if not in_text:
        for target, reason in report.failed:
            lines = wrapped(f"Error: {_naming(target, reason)}", "", 80)
            click.echo("\n".join(lines), err=True)
    if output is not None:
        plain = report.to_json() if form == "json" else text(report, verbose=verbose)
        try:
            write_whole(output, plain + "\n")
        except OSError as error:
            raise BadInput(f"--output {output}: {error.strerror}") from error
        if interrupted:
            as_shown(report, verbose=verbose)
        broke_off = "interrupted: " if interrupted else ""
        click.echo(f"{broke_off}{summary(report)}; written to {output}", err=True)
    elif form == "json":
        click.echo(report.to_json())
    elif report.subjects or report.skipped:
        as_shown(report, verbose=verbose)


def _naming(target: str, reason: str) -> str:
    """`reason`, which in most cases begins with the target already."""
    return reason if target in reason.partition("\n")[0] else f"{target}: {reason}"


def as_shown(report: Report, *, verbose: bool) -> None:
    """Print `report` for whoever looks at standard output."""
    on_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if on_terminal else 80
    width = max(_NARROW, min(_WIDE, width))
    colour = wants_colour(on_terminal=on_terminal)
    click.echo(text(report, verbose=verbose, width=width, colour=colour), color=colour)


def wants_colour(*, on_terminal: bool) -> bool:
    """Whether to send escape codes: see no-color.org and force-color.org."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return on_terminal and os.environ.get("TERM") != "dumb"
