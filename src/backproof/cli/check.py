"""`backproof check TARGET...`: a verdict for each subject."""

from __future__ import annotations

import dataclasses
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backproof.cli.options import report_options

if TYPE_CHECKING:
    from backproof.cli.in_process import InProcess
    from backproof.cli.isolation import Isolation

_INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def _codes(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    """The codes of `--laws`, each of which has to exist."""
    from backproof.codes import page

    if value is None:
        return None
    return tuple(page(code).code for code in value.split(",") if code.strip())


def _budget(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """A budget that can be read, before anything is loaded for it."""
    from backproof.battery.budget import Budget

    if value is not None:
        Budget.of(value)
    return value


def _readable(
    ctx: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """Input strings that parse, before anything is loaded for them."""
    from backproof.inputs.language import parse

    for text in value:
        parse(text)
    return value


@click.command(
    epilog="""\b
Examples:
  backproof check mykernels.py
  backproof check examples/
  backproof check mykernels.py::FusedNorm -i "bf16[64,512] bf16[512] 1e-5"
  backproof check package.ops:softplus -i "f64[100]" -i "f32[100]>0"
  backproof check quantise.py::Round --expect soft_round --strict
  backproof check ops.py::fused --reference plain --contexts all
  backproof check "torch.ops.aten.mul.Tensor" -i "f64[8] f64[8]"
  backproof check ops.py --format json --output report.json
  backproof check ops.py --repro repro.py
\b
Exit codes: 0 nothing wrong; 1 a law is broken or a subject crashed;
2 it could not be run. `--strict` makes undeclared surrogates and
inconclusive subjects a 1.
"""
)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option(
    "-i",
    "--inputs",
    multiple=True,
    metavar="STRING",
    callback=_readable,
    help='Inputs of one call, as "f64[3,10] *i64[4] None 0.5"; * needs no gradient. '
    "Several give several calls.",
)
@click.option(
    "--inputs-from",
    metavar="NAME",
    help="A function in the module that returns the arguments, or yields several.",
)
@click.option(
    "--expect",
    metavar="NAME",
    help="A soft function in the module whose derivative is the intended gradient.",
)
@click.option(
    "--reference",
    metavar="NAME",
    help="Plain code in the module with the same meaning; then forward is judged too.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of inputs and directions.",
)
@click.option(
    "--laws", metavar="CODES", callback=_codes, help="Only these, as BP101,BP104."
)
@click.option(
    "--contexts",
    metavar="NAMES",
    help="Also run it in these: names as func_grad,jit_trace_then_bwd, or groups: eager, "
    "func, vmap, compile, export, inductor; fast, all or none; -NAME leaves out. By "
    "default those of torch.library.opcheck, for custom operators only.",
)
@click.option(
    "--budget",
    metavar="AMOUNT",
    callback=_budget,
    help='What each subject may cost, as 2s or "500 calls"; what finds most for a '
    "call is asked first, and what was left out is said.",
)
@report_options
@click.option(
    "--repro",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a script there that shows the first finding of the first wrong subject "
    "without backproof, with a FILE.pt beside it where it needs numbers. It is run "
    "first, and kept only if it fails as it says.",
)
@click.option(
    "--strict", is_flag=True, help="Exit 1 also for what is undeclared or inconclusive."
)
@click.option("-v", "--verbose", is_flag=True, help="Show all of the evidence.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long one call of forward or backward may take, in isolation; a context "
    "that compiles may take five times as long.",
)
@click.option(
    "--memory",
    type=click.FloatRange(min=0, min_open=True),
    metavar="GIB",
    help="How much memory one file may hold, in isolation; by default four fifths of "
    "what is there.",
)
@click.option(
    "--isolate/--no-isolate",
    default=True,
    show_default=True,
    help="Run in a process that may crash or hang without harm.",
)
@click.pass_context
def check(
    ctx: click.Context,
    targets: tuple[str, ...],
    inputs: tuple[str, ...],
    inputs_from: str | None,
    expect: str | None,
    reference: str | None,
    seed: int,
    laws: tuple[str, ...] | None,
    contexts: str | None,
    budget: str | None,
    form: str,
    output: Path | None,
    repro: Path | None,
    strict: bool,
    verbose: bool,
    timeout: float,
    memory: float | None,
    isolate: bool,
) -> None:
    """Run gradients against what forward does, and say which are wrong.

    A TARGET is a file.py, a file.py::Name, a package.module:Name, an operator such as
    torch.ops.ns.name, or a folder, of which the *.py are read and not those of its
    sub-folders. Inputs come from --inputs, from --inputs-from, from functions marked with
    @backproof.inputs_for(Subject), or from a function called `inputs` in the module.
    """
    from backproof.cli.events import Request
    from backproof.cli.gather import Gathered, expand, gather
    from backproof.cli.output import deliver
    from backproof.cli.progress import Progress
    from backproof.cli.repro import Repro
    from backproof.report import environment
    from backproof.report.files import require_writable

    if output is not None:
        require_writable(output)
    with Repro(repro) if repro is not None else nullcontext() as script:
        gathered, torch_version = Gathered(), None
        requests = [
            Request(
                place,
                inputs,
                inputs_from,
                expect,
                seed,
                laws,
                reference,
                contexts,
                budget,
            )
            for place in expand(targets, gathered, gives=inputs_from)
        ]
        if requests:
            server = _server(timeout, memory, isolate=isolate)
            serve = server.serve if script is None else script.around(server.serve)
            with server, Progress(len(requests)) as bar:
                gather(requests, serve, gathered, bar.note)
            torch_version = server.torch
        report = gathered.report(environment(torch=torch_version, seed=seed))
        deliver(report, form, output, verbose=verbose, interrupted=gathered.interrupted)
        if script is not None:
            click.echo(script.settle(report), err=True)
    ctx.exit(_INTERRUPTED if gathered.interrupted else report.exit_code(strict=strict))


def _server(
    timeout: float, memory: float | None, *, isolate: bool
) -> Isolation | InProcess:
    from backproof.cli.in_process import InProcess
    from backproof.cli.isolation import Isolation, Limits

    # A worker is handed pipes by number, which Windows has not.
    if isolate and os.name == "posix":
        limits = Limits(seconds=timeout)
        if memory is not None:
            limits = dataclasses.replace(limits, resident=int(memory * 2**30))
        return Isolation(limits)
    return InProcess()
