"""What a check costs: calls, CPU time and peak memory against the number of elements.

Hand-written Functions that count and time their own forward and backward, from 10 to
10^6 elements, through backproof.check and both modes of gradcheck; slow gradcheck where
it is feasible. `gradient laws` are those of the gradient at the given inputs, which
gradcheck judges too. Each cell runs in a fresh process of one thread, after a warm-up
on ten elements: time is the best of a few runs, memory the growth of the process's peak
over the first of them. Overhead is the time outside the calls as a share of the time
inside. At last what a user meets: the linear layer of the examples, all that is asked
by default and all contexts but Inductor's, in CPU seconds after the imports, without
any warm-up.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import math
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from referees import GRADIENT_LAWS, Answer, gradcheck, ours
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
_FOUR = ("gelu", "layer_norm", "softmax", "matmul")
_REFEREES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "all laws": (("gelu", "linear"), ("float64", "float32")),
    "gradient laws": (_FOUR, ("float64", "float32", "bfloat16")),
    "BP101": (_FOUR, ("float64", "float32")),
    "fast": (_FOUR, ("float64",)),
    "slow": (_FOUR, ("float64",)),
}
"""Who is asked -> about which Functions, in which types."""

_LAWS = {"all laws": None, "gradient laws": GRADIENT_LAWS, "BP101": ("BP101",)}
_EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "linear.py"
_SHAPES = ((64, 512), (512, 512), (512,))  # of x, weight and bias there
_SECONDS = {"none": 2.0, "all,-inductor": 60.0}
"""Contexts -> the CPU seconds within which the example's layer must be checked."""


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
    def value(cls, *inputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The output, and what backward needs."""
        raise NotImplementedError

    @classmethod
    def pull(cls, g: Tensor, *saved: Tensor) -> Any:
        """The gradient of each input."""
        raise NotImplementedError

    @classmethod
    def forward(cls, ctx, *inputs):
        start = time.process_time()
        y, saved = cls.value(*inputs)
        ctx.save_for_backward(*saved)
        METER.seconds += time.process_time() - start
        METER.forwards += 1
        name = str(y.dtype).removeprefix("torch.")
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


class Linear(Metered):
    """Rows times a square matrix, and a bias: three inputs."""

    @classmethod
    def value(cls, x, weight, bias):
        return x @ weight.T + bias, (x, weight)

    @classmethod
    def pull(cls, g, x, weight):
        return g @ weight, g.T @ x, g.sum(0)


SUBJECTS = {
    "gelu": Gelu,
    "layer_norm": LayerNorm,
    "softmax": Softmax,
    "matmul": MatMul,
    "linear": Linear,
}


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
    cells = [
        Cell(subject, n, dtype, referee, given.seed)
        for referee, (subjects, dtypes) in _REFEREES.items()
        for subject in subjects
        if not given.quick or subject in ("gelu", "layer_norm")
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
        rows.append(_in_fresh_process(measure, cell))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    layer = [
        _in_fresh_process(measure_example, contexts)
        for contexts in (["none"] if given.quick else _SECONDS)
    ]
    _print_rows(rows)
    compared = _print_comparison(rows)
    _print_example(layer)
    write_rows(given.out, rows + layer)
    targets = _targets(rows, compared) + _example_targets(layer)
    return judge_targets(targets, quick=given.quick)


def measure(cell: Cell) -> Row:
    """One cell, in the process that it has for itself."""
    prepare()
    function = SUBJECTS[cell.subject].apply
    _ask(cell, function, _inputs(cell.subject, 10, DTYPES[cell.dtype]))
    inputs = _inputs(cell.subject, cell.elements, DTYPES[cell.dtype])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown, best, inside = 0, math.inf, 0.0
    for run in range(_repeats(cell)):
        vars(METER).update(vars(Meter()))
        answer = _ask(cell, function, inputs)
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


def _ask(
    cell: Cell, function: Callable[..., Tensor], inputs: Sequence[Tensor]
) -> Answer:
    if cell.referee in ("fast", "slow"):
        return gradcheck(function, inputs, fast=cell.referee == "fast", limit=300)
    laws = _LAWS[cell.referee]
    return ours(function, inputs, seed=cell.seed, limit=300, laws=laws)


def _repeats(cell: Cell) -> int:
    if cell.referee in ("slow", "all laws"):
        return 1
    return 5 if cell.elements <= 10_000 else 2


def _inputs(subject: str, n: int, dtype: torch.dtype) -> list[Tensor]:
    """Rows of n elements in all, and the weight and bias of a layer."""
    width = 64 if n % 64 == 0 and n % 10 else 10
    shapes = [(n // width, width)]
    if subject == "linear":
        shapes += [(width, width), (width,)]
    random = torch.Generator().manual_seed(n)
    drawn = [torch.randn(s, generator=random, dtype=torch.float64) for s in shapes]
    return [x.to(dtype).requires_grad_() for x in drawn]


def _weight(like: Tensor) -> Tensor:
    width = like.shape[-1]
    random = torch.Generator().manual_seed(width)
    weight = torch.randn(width, width, generator=random, dtype=torch.float64)
    return weight.to(like.dtype) / math.sqrt(width)


def measure_example(contexts: str) -> Row:
    """The linear layer of the examples: no warm-up, and what it has started counted."""
    prepare()
    specification = importlib.util.spec_from_file_location("example", _EXAMPLE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["example"] = module
    specification.loader.exec_module(module)
    random = torch.Generator().manual_seed(0)
    inputs = [torch.randn(s, generator=random, requires_grad=True) for s in _SHAPES]
    _load_what_torch_loads_late()
    start, wall = os.times(), time.perf_counter()
    answer = ours(module.op, inputs, laws=None, limit=600, contexts=contexts)
    spent = [b - a for a, b in zip(start[:4], os.times()[:4], strict=True)]
    return {
        "contexts": contexts,
        "cpu_seconds": sum(spent),
        "wall_seconds": time.perf_counter() - wall,
        **answer.row("ours"),
    }


def _load_what_torch_loads_late() -> None:
    """Imports of the first backward, the first dual tensor and the first check."""
    importlib.import_module("torch.fx.experimental.symbolic_shapes")
    importlib.import_module("torch._decomp.decompositions_for_jvp")
    importlib.import_module("backproof.battery.check")


def _print_example(layer: list[Row]) -> None:
    print_table(
        "The examples' linear layer, (64, 512) -> 512 in float32, all laws",
        ("contexts", "CPU s", "wall s", "forwards", "backwards", "verdict"),
        [
            [
                row["contexts"],
                f"{row['cpu_seconds']:.2f}",
                f"{row['wall_seconds']:.2f}",
                row["ours_forwards"],
                row["ours_backwards"],
                row["ours_verdict"],
            ]
            for row in layer
        ],
    )


def _example_targets(layer: list[Row]) -> list[Target]:
    targets = []
    for row in layer:
        most, spent = _SECONDS[row["contexts"]], row["cpu_seconds"]
        words = f"the examples' layer with contexts {row['contexts']} in {spent:.1f} s"
        met = spent < most and row["ours_verdict"] == "pass"
        targets.append(Target(f"{words} (below {most:.0f})", met, always=False))
    return targets


def _in_fresh_process(work: Callable[[Any], Row], task: Any) -> Row:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "backproof"])  # imported once, for all
    with context.Pool(1) as pool:
        return pool.apply(work, (task,))


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
        mine = at_size.get((subject, "gradient laws"))
        slow = at_size.get((subject, "slow"))
        if mine is None or slow is None:
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
        f"The gradient laws against slow gradcheck, {_COMPARED:,} inputs and outputs, "
        "float64",
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
    mine = [r for r in rows if r["referee"] in _LAWS]
    fine = [
        row
        for row in mine
        if row["dtype"] != "bfloat16" and row["referee"] != "all laws"
    ]
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
    for referee, forwards, backwards in (("BP101", 15, 4), ("gradient laws", 25, 10)):
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
        and row["referee"] == "gradient laws"
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
