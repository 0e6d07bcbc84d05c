"""`backproof audit PROGRAM`: run it, and verify every custom Function that it calls."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from backproof.cli.options import report_options

if TYPE_CHECKING:
    from backproof.audit.supervision import Audited

_COMMAND = "backproof.command"  # key of what stood behind `--`


class _Program(click.Command):
    """Options end where the program begins: at a SCRIPT, behind -m MODULE, or at `--`.

    What follows is the program's, also what looks like an option of ours.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at, has_module = self._end_of_options(args)
        mine, program = args[:at], args[at:]
        ctx.meta[_COMMAND] = not has_module and program[:1] == ["--"]
        if ctx.meta[_COMMAND]:
            program = program[1:]
        # Without a `--` an option that lacks its value says so.
        return super().parse_args(ctx, [*mine, "--", *program] if program else mine)

    def _end_of_options(self, args: list[str]) -> tuple[int, bool]:
        """Where the program begins in `args`, and whether a module was named before."""
        takes_value = {
            name: not option.is_flag
            for option in self.params
            if isinstance(option, click.Option)
            for name in option.opts
        }
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] != "--":
            name, _, joined = args[at].partition("=")
            if not name.startswith("--"):
                name, joined = args[at][:2], args[at][2:]
            at += 2 if takes_value.get(name) and not joined else 1
            if name == "-m":
                return at, True
        return at, False


@click.command(
    cls=_Program,
    context_settings={"allow_interspersed_args": False},
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
    "--rank-timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long ranks of one program wait for one another.  [default: 30]",
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
@report_options
@click.pass_context
def audit(ctx: click.Context, /, program: tuple[str, ...], **options: Any) -> None:
    """Run a program unchanged, and verify every custom Function that it calls.

    SCRIPT is a Python file; with -m a module; behind -- any command. Every Python
    process that it starts is watched too. Functions of torch itself are left out.
    """
    from backproof.audit.baseline import read
    from backproof.audit.ranks.ending import ending_together
    from backproof.audit.settings import from_project
    from backproof.audit.supervision import audit as run
    from backproof.errors import BadInput
    from backproof.report.files import require_writable

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
        "rank_timeout",
    )
    settings = from_project(Path.cwd()).over({name: options[name] for name in names})
    if options["accept"] and not settings.baseline:
        raise BadInput("--accept needs --baseline FILE to write to")
    path = Path(settings.baseline) if settings.baseline else None
    known = []
    if path is not None and (path.exists() or not options["accept"]):
        known = read(path)
    if path is not None and options["accept"]:
        require_writable(path, "--baseline")
    command = _command(program, options["module"], behind=ctx.meta[_COMMAND])
    with ending_together() as ending:
        audited = run(command, settings)
        code = _told(audited, known, path, options)
        if code and audited.ranks > 1:
            ending.give_others_a_moment()
    ctx.exit(code)


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
    script = Path(program[0])
    if not (script.is_file() or (script / "__main__.py").is_file()):
        other = (
            f"; a module is run by -m {script}, any other command by `backproof audit "
            f"-- {script} ...`"
        )
        raise BadInput(
            f"{script}: there is no such file{'' if script.suffix == '.py' else other}"
        )
    return [sys.executable, *program]


def _told(
    audited: Audited, known: list[Any], path: Path | None, options: dict[str, Any]
) -> int:
    """Report, and return the exit code."""
    from backproof.audit import baseline
    from backproof.report.files import write_whole
    from backproof.report.terminal import summary

    if audited.report is None:
        only = " that --only names" if options["only"] else ""
        click.echo(f"backproof: {_NOTHING.format(only)}", err=True)
        return audited.exit_code
    report = audited.report.relative_to(Path.cwd())
    if options["accept"] and path is not None and audited.rank == 0:
        write_whole(path, baseline.of(report, known))
        known = baseline.read(path)
    held = baseline.hold(report, known)
    failed = bool(held.failing or held.fixed) and not options["report_only"]
    code = audited.exit_code or int(failed)
    if audited.rank > 0:  # one of them says it for all
        said = f"rank {audited.rank}: {summary(report)}; rank 0 reports"
        click.echo(f"backproof: {said}", err=True)
        return code
    _deliver(report, held, options["form"], options["output"])
    for entry in held.fixed:
        if path is not None:
            click.echo(f"baseline: {baseline.in_words(entry, path)}", err=True)
    return code


def _deliver(report: Any, held: Any, form: str, output: Path | None) -> None:
    import shutil

    from backproof.cli.output import wants_colour
    from backproof.report.audited import audited
    from backproof.report.files import write_whole
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
    "no custom Function{} was called in a Python process that has\n"
    "torch and backproof installed"
)
