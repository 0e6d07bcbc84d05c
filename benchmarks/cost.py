"""What a check costs: calls, CPU time and peak memory against the number of elements.

Four hand-written Functions that count and time their own forward and backward, from 10
to 10^6 elements, through backproof.check (all laws, and BP101 alone) and both modes of
gradcheck; slow gradcheck where it is feasible. Each cell runs in a fresh process of one
thread, after a warm-up on ten elements: time is the best of a few runs, memory the
growth of the process's peak over the first of them. Overhead is the time outside the
calls as a share of the time inside.
"""

from __future__ import annotations

import dataclasses
import math
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from referees import Answer, gradcheck, ours
from running import (
    DTYPES,
    Row,
    Target,
    judge_targets,
    listed,
    parser,
    prepare,
    print_table,
    write_rows,
)
from torch import Tensor

_SIZES = (10, 100, 1_000, 4_096, 10_000, 100_000, 1_000_000)
_QUICK_SIZES = (10, 4_096, 100_000)
_SLOW_MOST = 4_096  # elements that slow gradcheck is asked for
_COMPARED = 4_096  # elements at which ours and slow gradcheck are set side by side
_LARGE = 100_000  # elements from which our overhead must be below the calls' time
_BYTES = 1 if sys.platform == "darwin" else 1024  # the unit of ru_maxrss
_REFEREES = {
    "all laws": ("float64", "float32", "bfloat16"),
    "BP101": ("float64", "float32"),
    "fast": ("float64",),
    "slow": ("float64",),
}


@dataclass
class Meter:
    """Calls of a Function and the CPU seconds inside them, forward and backward.

    `dtypes` counts the forwards by the type that they ran in.
    """

    forwards: int = 0
    backwards: int = 0
    seconds: float = 0.0
    dtypes: dict[str, int] = field(default_factory=dict)


METER = Meter()


class Metered(torch.autograd.Function):
    """A Function whose `value` and `pull` are counted and timed."""

    @classmethod
    def value(cls, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The output, and what backward needs."""
        raise NotImplementedError

    @classmethod
    def pull(cls, g: Tensor, *saved: Tensor) -> Tensor:
        """The gradient."""
        raise NotImplementedError

    @classmethod
    def forward(cls, ctx, x):
        start = time.process_time()
        y, saved = cls.value(x)
        ctx.save_for_backward(*saved)
        METER.seconds += time.process_time() - start
        METER.forwards += 1
        name = str(x.dtype).removeprefix("torch.")
        METER.dtypes[name] = METER.dtypes.get(name, 0) + 1
        return y

    @classmethod
    def backward(cls, ctx, g):
        start = time.process_time()
        gradient = cls.pull(g, *ctx.saved_tensors)
        METER.seconds += time.process_time() - start
        METER.backwards += 1
        return gradient


class Gelu(Metered):
    """x Phi(x)."""

    @classmethod
    def value(cls, x):
        return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5))), (x,)

    @classmethod
    def pull(cls, g, x):
        share = 0.5 * (1 + torch.erf(x * math.sqrt(0.5)))
        density = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        return g * (share + x * density)


class LayerNorm(Metered):
    """Rows to zero mean and unit variance."""

    @classmethod
    def value(cls, x):
        centred = x - x.mean(-1, keepdim=True)
        scale = (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        y = centred * scale
        return y, (y, scale)

    @classmethod
    def pull(cls, g, y, scale):
        mean = g.mean(-1, keepdim=True)
        return scale * (g - mean - y * (g * y).mean(-1, keepdim=True))


class Softmax(Metered):
    """Along rows."""

    @classmethod
    def value(cls, x):
        y = torch.softmax(x, -1)
        return y, (y,)

    @classmethod
    def pull(cls, g, y):
        return y * (g - (g * y).sum(-1, keepdim=True))


class MatMul(Metered):
    """Rows times a fixed square matrix."""

    @classmethod
    def value(cls, x):
        return x @ _weight(x), ()

    @classmethod
    def pull(cls, g):
        return g @ _weight(g).T


SUBJECTS = {"gelu": Gelu, "layer_norm": LayerNorm, "softmax": Softmax, "matmul": MatMul}


@dataclass(frozen=True)
class Cell:
    """One measurement: which Function, how large, in which type, by whom."""

    subject: str
    elements: int
    dtype: str
    referee: str
    seed: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a target is missed."""
    given = parser(__doc__, jobs=False).parse_args(arguments)
    sizes = _QUICK_SIZES if given.quick else _SIZES
    subjects = ("gelu", "layer_norm") if given.quick else tuple(SUBJECTS)
    cells = [
        Cell(subject, n, dtype, referee, given.seed)
        for subject in subjects
        for referee, dtypes in _REFEREES.items()
        for dtype in dtypes
        for n in sizes
        if referee != "slow" or n <= _SLOW_MOST
    ]
    if given.quick:
        cells = [c for c in cells if c.referee != "slow" or c.subject == "gelu"]
    rows = []
    for cell in cells:
        if sys.stderr.isatty():
            print(f"\r\033[K{cell}", end="", file=sys.stderr, flush=True)
        rows.append(_in_fresh_process(cell))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    _print_rows(rows)
    compared = _print_comparison(rows)
    write_rows(given.out, rows)
    return judge_targets(_targets(rows, compared), quick=given.quick)


def measure(cell: Cell) -> Row:
    """One cell, in the process that it has for itself."""
    prepare()
    function = SUBJECTS[cell.subject].apply
    _ask(cell, function, _input(10, DTYPES[cell.dtype]))
    x = _input(cell.elements, DTYPES[cell.dtype])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown, best, inside = 0, math.inf, 0.0
    for run in range(_repeats(cell)):
        vars(METER).update(vars(Meter()))
        answer = _ask(cell, function, x)
        if run == 0:
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if answer.seconds < best:
            best, inside = answer.seconds, METER.seconds
    return {
        **dataclasses.asdict(cell),
        "verdict": answer.verdict,
        "words": answer.words,
        "forwards": METER.forwards,
        "backwards": METER.backwards,
        "forwards_by_dtype": dict(METER.dtypes),
        "seconds": best,
        "inside_seconds": inside,
        "overhead": (best - inside) / inside if inside else None,
        "peak_bytes": grown * _BYTES,
    }


def _ask(cell: Cell, function: Callable[..., Tensor], x: Tensor) -> Answer:
    if cell.referee in ("fast", "slow"):
        return gradcheck(function, [x], fast=cell.referee == "fast", limit=300)
    options = {} if cell.referee == "all laws" else {"laws": [cell.referee]}
    return ours(function, [x], seed=cell.seed, limit=300, **options)


def _repeats(cell: Cell) -> int:
    if cell.referee == "slow":
        return 1
    return 5 if cell.elements <= 10_000 else 2


def _input(n: int, dtype: torch.dtype) -> Tensor:
    width = 64 if n % 64 == 0 and n % 10 else 10
    random = torch.Generator().manual_seed(n)
    x = torch.randn(n // width, width, generator=random, dtype=torch.float64)
    return x.to(dtype).requires_grad_()


def _weight(like: Tensor) -> Tensor:
    width = like.shape[-1]
    random = torch.Generator().manual_seed(width)
    weight = torch.randn(width, width, generator=random, dtype=torch.float64)
    return weight.to(like.dtype) / math.sqrt(width)


def _in_fresh_process(cell: Cell) -> Row:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "backproof"])  # imported once, for all
    with context.Pool(1) as pool:
        return pool.apply(measure, (cell,))


def _print_rows(rows: list[Row]) -> None:
    print_table(
        "Cost of one check",
        (
            "Function",
            "referee",
            "dtype",
            "elements",
            "forwards",
            "backwards",
            "CPU ms",
            "of it in calls",
            "overhead",
            "peak MB",
            "verdict",
        ),
        [
            [
                row["subject"],
                _label(row),
                row["dtype"],
                f"{row['elements']:,}",
                row["forwards"],
                row["backwards"],
                f"{1e3 * row['seconds']:.1f}",
                f"{1e3 * row['inside_seconds']:.1f}",
                f"{row['overhead']:.1f}" if row["overhead"] is not None else None,
                f"{row['peak_bytes'] / 1e6:.1f}",
                row["verdict"],
            ]
            for row in rows
        ],
    )


def _label(row: Row) -> str:
    if row["referee"] in ("fast", "slow"):
        return f"gradcheck {row['referee']}"
    return f"backproof, {row['referee']}"


def _print_comparison(rows: list[Row]) -> list[tuple[str, float, float]]:
    """Ours against slow gradcheck at one size: how many times faster and smaller."""
    at_size = {
        (row["subject"], row["referee"]): row
        for row in rows
        if row["elements"] == _COMPARED and row["dtype"] == "float64"
    }
    compared, lines = [], []
    for subject in dict.fromkeys(row["subject"] for row in rows):
        mine, slow = at_size[subject, "all laws"], at_size.get((subject, "slow"))
        if slow is None:
            continue
        faster = slow["seconds"] / mine["seconds"]
        memory = mine["peak_bytes"] / max(slow["peak_bytes"], 1)
        compared.append((subject, faster, memory))
        lines.append(
            [
                subject,
                f"{1e3 * mine['seconds']:.0f}",
                f"{1e3 * slow['seconds']:.0f}",
                f"{faster:.0f}",
                f"{mine['peak_bytes'] / 1e6:.1f}",
                f"{slow['peak_bytes'] / 1e6:.0f}",
                f"{memory:.4f}",
            ]
        )
    print_table(
        f"All laws against slow gradcheck, {_COMPARED:,} inputs and outputs, float64",
        (
            "Function",
            "ours ms",
            "slow ms",
            "times faster",
            "ours MB",
            "slow MB",
            "memory ratio",
        ),
        lines,
    )
    return compared


def _targets(rows: list[Row], compared: list[tuple[str, float, float]]) -> list[Target]:
    mine = [r for r in rows if r["referee"] in ("all laws", "BP101")]
    fine = [row for row in mine if row["dtype"] != "bfloat16"]
    changing = []
    for key in dict.fromkeys((r["subject"], r["referee"], r["dtype"]) for r in fine):
        calls = {
            (row["forwards"], row["backwards"])
            for row in fine
            if (row["subject"], row["referee"], row["dtype"]) == key
        }
        if len(calls) > 1:
            changing.append(f"{' '.join(key)} {sorted(calls)}")
    targets = [
        Target(f"calls change with the size in: {listed(changing)}", not changing)
    ]
    for referee, forwards, backwards in (("BP101", 15, 4), ("all laws", 25, 10)):
        over = [
            f"{row['subject']} {row['dtype']} {row['elements']:,}: "
            f"{row['forwards_by_dtype'].get(row['dtype'], 0)}/{row['backwards']}"
            for row in fine
            if row["referee"] == referee
            and (
                row["forwards_by_dtype"].get(row["dtype"], 0) > forwards
                or (row["dtype"] == "float64" and row["backwards"] > backwards)
            )
        ]
        words = f"{referee} costs more than {forwards} forwards, {backwards} backwards"
        targets.append(Target(f"{words} in: {listed(over)}", not over))
    heavy = [
        f"{row['subject']} {row['dtype']} {row['elements']:,}: {row['overhead']:.1f}"
        for row in mine
        if row["elements"] >= _LARGE
        and row["referee"] == "all laws"
        and row["overhead"] is not None
        and row["overhead"] >= 1
    ]
    words = f"overhead above the calls' own time from {_LARGE:,} elements in"
    targets.append(Target(f"{words}: {listed(heavy)}", not heavy, always=False))
    slower = [f"{name} {faster:.0f}" for name, faster, _ in compared if faster < 100]
    larger = [f"{name} {ratio:.2f}" for name, _, ratio in compared if ratio > 0.1]
    targets += [
        Target(
            f"less than 100 times faster than slow in: {listed(slower)}", not slower
        ),
        Target(f"more than a tenth of its memory in: {listed(larger)}", not larger),
    ]
    failed = [f"{r['subject']} {r['dtype']}" for r in mine if r["verdict"] != "pass"]
    targets.append(Target(f"not passed: {listed(failed)}", not failed))
    return targets


if __name__ == "__main__":
    sys.exit(main())
