"""`backproof audit PROGRAM`: run it, and verify every custom Function that it calls."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from backproof.audit.supervision import Audited

_COMMAND = "backproof.command"  # key of what stood behind `--`


class _Program(click.Command):
    """Options end where the program begins; `--` begins a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        program = ctx.params["program"]
        at = len(given) - len(program) - 1
        ctx.meta[_COMMAND] = at >= 0 and given[at] == "--"
        return rest


@click.command(
    cls=_Program,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="""\b
Examples:
  backproof audit train.py --steps 20
  backproof audit -m mypackage.train --config small.yaml
  backproof audit --for 60 train.py
  backproof audit --only "mypackage.*" -- pytest tests
  torchrun --nproc-per-node 2 -m backproof audit --when step train.py
\b
The program's output, its exit code and what it writes are its own; the
report goes to standard error. Exit codes: the program's, if that is not 0;
else 1 if a gradient is wrong or crashed (not with --report-only), 2 if it
could not be run, 0 otherwise.
""",
)
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")
@click.option(
    "-m", "module", metavar="MODULE", help="Run a module, as `python -m` does."
)
@click.option(
    "--for",
    "stop_after",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Interrupt the program after so long, and report.",
)
@click.option(
    "--calls",
    type=click.IntRange(min=1),
    metavar="N",
    help="Calls kept of each Function for each kind of arguments.  [default: 3]",
)
@click.option(
    "--memory",
    type=click.FloatRange(min=0),
    metavar="MIB",
    help="Arguments that may be kept in each process.  [default: 256]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="What all verification together may take.  [default: 60]",
)
@click.option(
    "--only",
    multiple=True,
    metavar="PATTERN",
    help="Only Functions whose dotted name matches or contains it; several times.",
)
@click.option(
    "--when",
    type=click.Choice(["exit", "step"]),
    default="exit",
    show_default=True,
    help="Verify when the program ends, or after each step of an optimizer.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    help="Of directions and cotangents.",
)
@click.option(
    "--baseline",
    metavar="FILE",
    help="Findings that are known and accepted; what is fixed must be removed.",
)
@click.option(
    "--accept", is_flag=True, help="Write what is found to the baseline instead."
)
@click.option("--report-only", is_flag=True, help="The exit code is the program's.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to write.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the report there, whole or not at all.",
)
@click.pass_context
def audit(ctx: click.Context, /, program: tuple[str, ...], **options: Any) -> None:
    """Run a program unchanged, and verify every custom Function that it calls.

    SCRIPT is a Python file; with -m a module; behind -- any command. Every Python
    process that it starts is watched too. Functions of torch itself are left out.
    """
    from backproof.audit.baseline import read
    from backproof.audit.settings import from_project
    from backproof.audit.supervision import audit as run
    from backproof.cli.output import require_writable
    from backproof.errors import BadInput

    output = options["output"]
    if output is not None:
        require_writable(output)
    elif options["form"] == "json":
        raise BadInput(
            "--format json needs --output FILE: standard output is the program's"
        )
    names = (
        "seconds",
        "calls",
        "memory",
        "only",
        "baseline",
        "stop_after",
        "when",
        "seed",
    )
    settings = from_project(Path.cwd()).over({name: options[name] for name in names})
    if options["accept"] and not settings.baseline:
        raise BadInput("--accept needs --baseline FILE to write to")
    path = Path(settings.baseline) if settings.baseline else None
    known = []
    if path is not None and (path.exists() or not options["accept"]):
        known = read(path)
    command = _command(program, options["module"], behind=ctx.meta[_COMMAND])
    ctx.exit(_told(run(command, settings), known, path, options))


def _command(
    program: tuple[str, ...], module: str | None, *, behind: bool
) -> list[str]:
    """What to start."""
    from backproof.errors import BadInput

    if module is not None:
        return [sys.executable, "-m", module, *program]
    if not program:
        raise BadInput(
            "there is no program to run: give a SCRIPT, -m MODULE, or -- COMMAND"
        )
    if behind:
        return list(program)
    if not Path(program[0]).is_file():
        raise BadInput(
            f"{program[0]}: there is no such file; a module is run by -m "
            f"{program[0]}, any other command by `backproof audit -- {program[0]} ...`"
        )
    return [sys.executable, *program]


def _told(
    audited: Audited, known: list[Any], path: Path | None, options: dict[str, Any]
) -> int:
    """Report, and return the exit code."""
    from backproof.audit import baseline
    from backproof.cli.output import write_whole

    if audited.report is None:
        click.echo(f"backproof: {_NOTHING}", err=True)
        return audited.exit_code
    report = audited.report.relative_to(Path.cwd())
    if options["accept"] and path is not None:
        write_whole(path, baseline.of(report, known))
        known = baseline.read(path)
    held = baseline.hold(report, known)
    _deliver(report, held, options["form"], options["output"])
    for entry in held.fixed:
        if path is not None:
            click.echo(f"baseline: {baseline.in_words(entry, path)}", err=True)
    failed = bool(held.failing or held.fixed) and not options["report_only"]
    return audited.exit_code or int(failed)


def _deliver(report: Any, held: Any, form: str, output: Path | None) -> None:
    import shutil

    from backproof.cli.output import wants_colour, write_whole
    from backproof.report.audited import audited
    from backproof.report.terminal import summary

    on_terminal = sys.stderr.isatty()
    width = shutil.get_terminal_size().columns if on_terminal else 80
    colour = wants_colour(on_terminal=on_terminal)
    if output is None:
        text = audited(
            report,
            width=max(60, min(100, width)),
            colour=colour,
            accepted=held.accepted,
        )
        click.echo(f"\n{text}", err=True, color=colour)
        return
    plain = (
        report.to_json() if form == "json" else audited(report, accepted=held.accepted)
    )
    write_whole(output, plain + "\n")
    click.echo(f"backproof: {summary(report)}; written to {output}", err=True)


_NOTHING = (
    "no Python process of it has loaded torch, called a custom Function and has "
    "backproof installed"
)
