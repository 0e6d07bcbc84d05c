"""The command line: one command a file, loaded when it is called.

Nothing here imports torch, so that `--help` and reading a report are immediate.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import IO, Any

import click

from backproof.errors import BadInput

_COMMANDS = ("audit", "check", "explain", "show")


class _Refusal(click.ClickException):
    """Something that cannot be run: the message alone, and exit code 2."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the message to `file`, standard error by default."""
        from backproof.report.layout import wrapped

        lines = wrapped(f"Error: {self.message}", "", 80)
        click.echo("\n".join(lines), file=file, err=file is None)


class _Commands(click.Group):
    """Finds its commands in the files of this folder."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(
            import_module(f"backproof.cli.{cmd_name}"), cmd_name
        )
        return command

    def invoke(self, ctx: click.Context) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a ± must not stop an old terminal
                stream.reconfigure(errors="replace")
        try:
            return super().invoke(ctx)
        except BadInput as error:
            raise _Refusal(str(error)) from error


_HELP = """Custom gradients for PyTorch that people can trust.

\b
Examples:
  backproof check mykernels.py      # a verdict for each Function in it
  backproof check examples/ --strict
  backproof audit train.py          # every Function that a program runs
  backproof explain BP101           # what a code means, and what to do
"""  # click takes the backspace as: do not rewrap what follows


@click.group(
    cls=_Commands, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="backproof", message="%(prog)s %(version)s")
def main() -> None:
    """The program; each command is a file of this folder."""
