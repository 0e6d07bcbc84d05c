"""Whether the true derivative lies inside the error bar, and how wide the bar is.

Smooth functions of various conditioning whose derivatives are written out, at random
points, directions and cotangents, in float64 (with float32 kernels behind it), float32
and bfloat16. Counted: measurements in which the truth lies inside the bar, the median
of bar over error (a wide bar covers anything), and the bar relative to the derivative.
Where the probe itself says that forward is not smooth at its steps there is no
measurement; that share is printed too.
"""

from __future__ import annotations

import functools
import statistics
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from running import (
    DTYPES,
    Row,
    Target,
    each,
    judge_targets,
    parser,
    prepare,
    print_table,
    share,
    write_rows,
)
from torch import Generator, Tensor

from backproof.probe import PRECISIONS, Point, climb, direction, respond, slopes

_LEAST = {"float64": 0.99, "float32": 0.95, "bfloat16": 0.95}
_SIZES = (8, 64, 1024)
_AVERAGED = (
    2**16
)  # elements: below, 16-bit types sum several ladders, as the check does
_FINE = ("float64", "float32")


@dataclass(frozen=True)
class Known:
    """A function of one tensor (n,), and its derivative along a tangent.

    `slope(x, v)` is the exact J v, in float64; `draw(n, generator)` a point.
    """

    name: str
    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]
    draw: Callable[[int, Generator], Tensor]
    dtypes: Sequence[str] = tuple(_LEAST)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a target is missed."""
    options = parser(__doc__)
    options.add_argument("--dtype", choices=list(_LEAST), action="append")
    options.add_argument(
        "--draws", type=int, help="per function and size (default: 40, quick: 6)"
    )
    given = options.parse_args(arguments)
    prepare()
    dtypes = given.dtype or list(_LEAST)
    tasks = [
        (known.name, dtype, n)
        for dtype in dtypes
        for known in KNOWN.values()
        for n in _SIZES
        if dtype in known.dtypes
    ]
    draws = given.draws or (6 if given.quick else 40)
    work = functools.partial(measure, draws=draws, seed=given.seed)
    rows = [
        row
        for found in each(work, tasks, jobs=given.jobs, words="functions")
        for row in found
    ]
    _print_functions(rows, dtypes)
    write_rows(given.out, rows)
    return judge_targets(_print_coverage(rows, dtypes), quick=given.quick)


def measure(task: tuple[str, str, int], *, draws: int, seed: int) -> list[Row]:
    """Two directions times two cotangents at each of `draws` points."""
    name, dtype, n = task
    known = KNOWN[name]
    own = zlib.crc32(f"{name} {dtype} {n}".encode()) % 10**6
    random = torch.Generator().manual_seed(1000 * seed + own)
    rows = []
    for draw in range(draws):
        found = _bars(known, known.draw(n, random), DTYPES[dtype], random)
        named = {"function": name, "dtype": dtype, "elements": n, "draw": draw}
        rows += [named | one for one in found] or [named | {"bar": None}]
    return rows


def _bars(
    known: Known, drawn: Tensor, dtype: torch.dtype, random: Generator
) -> list[Row]:
    """Bar and error of each slope, none where the probe calls forward not smooth."""
    precision = PRECISIONS[dtype]
    x = drawn.to(dtype).double()
    point = Point(x, dtype, tuple(x.shape))

    def evaluate(inputs: Sequence[Tensor]) -> Tensor:
        return known.value(inputs[0].to(dtype)).double().reshape(-1)

    base = evaluate([x])
    elements = x.numel() + base.numel()
    repeats = max(1, min(precision.repeats, _AVERAGED // elements))
    ladders = []
    for _ in range(2):
        first = direction(point, precision, random)
        more = [
            [direction(point, precision, random, signs_of=first)]
            for _ in range(1, repeats)
        ]
        lines = [[first], *more]
        ladders.append(climb(evaluate, [point], base, lines, precision.ratio))
    response = respond(
        ladders,
        base,
        precision,
        relative_step=precision.step,
        finite=torch.isfinite(base),
    )
    if response.not_smooth:
        return []
    cotangents = [
        torch.where(
            response.smooth,
            sign * (0.6 + 0.8 * _uniform(base.shape, random)) / response.weights(),
            0.0,
        )
        for sign in ((_uniform(base.shape, random) - 0.5).sign(), 1.0)
    ]
    return [
        _row(known, x, ladder.steps[0], cotangent, slope.estimate)
        for ladder, line in zip(
            ladders, slopes(ladders, response, cotangents), strict=True
        )
        for cotangent, slope in zip(cotangents, line, strict=True)
    ]


def _row(known: Known, x: Tensor, step: Tensor, cotangent: Tensor, estimate) -> Row:
    moved = known.slope(x, step).reshape(-1)
    truth = float(cotangent @ moved)
    size = float((cotangent * moved).square().sum()) ** 0.5  # free of luck with signs
    return {
        "truth": truth,
        "size": max(abs(truth), size),
        "error": abs(estimate.value - truth),
        "bar": estimate.error,
        "noise": estimate.noise,
        "truncation": estimate.truncation,
    }


def _uniform(shape: torch.Size, random: Generator) -> Tensor:
    return torch.rand(shape, generator=random, dtype=torch.float64)


def _print_functions(rows: list[Row], dtypes: Sequence[str]) -> None:
    lines = []
    for name in dict.fromkeys(row["function"] for row in rows):
        cells: list[object] = [name]
        for dtype in dtypes:
            mine = [r for r in rows if r["function"] == name and r["dtype"] == dtype]
            cells += _cells(mine)
        lines.append(cells)
    print_table(
        "Known derivatives: truth inside the bar, median bar/error, median bar/slope",
        (
            "function",
            *(
                f"{dtype} {what}"
                for dtype in dtypes
                for what in ("inside", "bar/error", "bar/slope")
            ),
        ),
        lines,
    )


def _cells(mine: list[Row]) -> list[object]:
    measured = [row for row in mine if row["bar"] is not None]
    if not measured:
        return [None if not mine else "not smooth", None, None]
    return [
        share(sum(map(_inside, measured)), len(measured)),
        f"{_median_ratio(measured):.1f}",
        f"{statistics.median(r['bar'] / (r['size'] or 1.0) for r in measured):.0e}",
    ]


def _print_coverage(rows: list[Row], dtypes: Sequence[str]) -> list[Target]:
    lines, targets = [], []
    for dtype in dtypes:
        mine = [row for row in rows if row["dtype"] == dtype]
        measured = [row for row in mine if row["bar"] is not None]
        inside = sum(map(_inside, measured))
        worst = max(row["error"] / row["bar"] for row in measured if row["bar"])
        lines.append(
            [
                dtype,
                len({row["function"] for row in mine}),
                share(inside, len(measured)),
                f"{_median_ratio(measured):.1f}",
                f"{worst:.1f}",
                share(len(mine) - len(measured), len(mine)),
            ]
        )
        words = f"{dtype}: truth inside the bar in {share(inside, len(measured))}"
        targets.append(
            Target(
                f"{words} (at least {_LEAST[dtype]:.0%})",
                inside >= _LEAST[dtype] * len(measured),
            )
        )
    print_table(
        "Calibration",
        (
            "dtype",
            "functions",
            "inside the bar",
            "median bar/error",
            "worst error/bar",
            "not smooth, says the probe",
        ),
        lines,
    )
    return targets


def _inside(row: Row) -> bool:
    return row["error"] <= row["bar"]


def _median_ratio(measured: list[Row]) -> float:
    return statistics.median(
        row["bar"] / row["error"] if row["error"] else float("inf") for row in measured
    )


# ------------------------------------------------------------- the functions


def _normal(n: int, random: Generator) -> Tensor:
    return torch.randn(n, generator=random, dtype=torch.float64)


def _between(low: float, high: float) -> Callable[[int, Generator], Tensor]:
    return lambda n, random: low + (high - low) * _uniform(torch.Size([n]), random)


def _decades(low: float, high: float) -> Callable[[int, Generator], Tensor]:
    return lambda n, random: 10 ** _between(low, high)(n, random)


def _elementwise(
    value: Callable[[Tensor], Tensor], derivative: Callable[[Tensor], Tensor]
) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]:
    return value, lambda x, v: derivative(x) * v


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, 8)


def _matrix(like: Tensor) -> Tensor:
    random = torch.Generator().manual_seed(0)
    matrix = torch.randn(8, 8, generator=random, dtype=torch.float64)
    return matrix.bfloat16().to(like.dtype)  # the same numbers in every type


def _softmax_slope(x: Tensor, v: Tensor) -> Tensor:
    y, v = torch.softmax(_rows(x), -1), _rows(v)
    return y * (v - (y * v).sum(-1, keepdim=True))


def _logsumexp_slope(x: Tensor, v: Tensor) -> Tensor:
    return (torch.softmax(_rows(x), -1) * _rows(v)).sum(-1)


def _unit(x: Tensor) -> Tensor:
    return _rows(x) / _rows(x).square().sum(-1, keepdim=True).sqrt()


def _unit_slope(x: Tensor, v: Tensor) -> Tensor:
    y, v = _unit(x), _rows(v)
    length = _rows(x).square().sum(-1, keepdim=True).sqrt()
    return (v - y * (y * v).sum(-1, keepdim=True)) / length


def _quadratic(x: Tensor) -> Tensor:
    return ((_rows(x) @ _matrix(x)) * _rows(x)).sum()


def _quadratic_slope(x: Tensor, v: Tensor) -> Tensor:
    matrix = _matrix(x)
    return ((_rows(x) @ (matrix + matrix.T)) * _rows(v)).sum()


def _product_slope(x: Tensor, v: Tensor) -> Tensor:
    x, v = _rows(x), _rows(v)
    return x.prod(-1) * (v / x).sum(-1)


KNOWN = {
    known.name: known
    for known in [
        Known("sin x", *_elementwise(torch.sin, torch.cos), _normal),
        Known(
            "exp 3x",
            *_elementwise(lambda x: torch.exp(3 * x), lambda x: 3 * torch.exp(3 * x)),
            _normal,
        ),
        Known(
            "x^3 + x",
            *_elementwise(lambda x: x**3 + x, lambda x: 3 * x**2 + 1),
            _normal,
        ),
        Known(
            "log x, six decades",
            *_elementwise(torch.log, torch.reciprocal),
            _decades(-3, 3),
        ),
        Known(
            "sqrt x",
            *_elementwise(torch.sqrt, lambda x: 0.5 / x.sqrt()),
            _decades(-4, 1),
        ),
        Known(
            "1/x", *_elementwise(torch.reciprocal, lambda x: -1 / x**2), _decades(-1, 1)
        ),
        Known(
            "tanh 5x",
            *_elementwise(
                lambda x: torch.tanh(5 * x), lambda x: 5 / torch.cosh(5 * x) ** 2
            ),
            _normal,
        ),
        Known(
            "x exp(-x^2)",
            *_elementwise(
                lambda x: x * torch.exp(-x * x),
                lambda x: (1 - 2 * x * x) * torch.exp(-x * x),
            ),
            _normal,
        ),
        Known(
            "x^3 near 1e4",
            *_elementwise(lambda x: x**3, lambda x: 3 * x**2),
            lambda n, random: 1e4 + _normal(n, random),
        ),
        Known(
            "sin 50x",
            *_elementwise(
                lambda x: torch.sin(50 * x), lambda x: 50 * torch.cos(50 * x)
            ),
            _normal,
            _FINE,
        ),
        Known(
            "1000 + sin x",
            *_elementwise(lambda x: 1000 + torch.sin(x), torch.cos),
            _normal,
            _FINE,
        ),
        Known(
            "softmax", lambda x: torch.softmax(_rows(x), -1), _softmax_slope, _normal
        ),
        Known(
            "logsumexp",
            lambda x: torch.logsumexp(_rows(x), -1),
            _logsumexp_slope,
            _normal,
        ),
        Known("x / |x|", _unit, _unit_slope, _normal),
        Known("x'Ax summed", _quadratic, _quadratic_slope, _normal),
        Known(
            "matrix product",
            lambda x: _rows(x) @ _matrix(x),
            lambda x, v: _rows(v) @ _matrix(v),
            _normal,
        ),
        Known(
            "product of eight",
            lambda x: _rows(x).prod(-1),
            _product_slope,
            _between(0.5, 1.5),
        ),
        Known(
            "sin x, float32 inside",
            *_elementwise(lambda x: x.float().sin().double(), torch.cos),
            _normal,
            ("float64",),
        ),
        Known(
            "softmax, float32 inside",
            lambda x: torch.softmax(_rows(x).float(), -1).double(),
            _softmax_slope,
            _normal,
            ("float64",),
        ),
    ]
}


if __name__ == "__main__":
    sys.exit(main())
