"""Options that more than one command has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def report_options(command: Command) -> Command:
    """`--format` (as `form`) and `--output`: in what form a report goes where."""
    form = click.option(
        "--format",
        "form",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="What to write.",
    )
    output = click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the report there, whole or not at all.",
    )
    return form(output(command))
