"""Whether the true derivative lies inside the error bar, and how wide the bar is.

The functions of tests/calibration/known.py, smooth, of various conditioning, their
derivatives written out, at random points, directions and cotangents, in float64 (also
with float32 kernels behind it), float32 and bfloat16. Counted: measurements in which the
truth lies inside the bar, the median of bar over error (a wide bar covers anything), and
the bar relative to the derivative. Where the probe itself says that forward is not
smooth at its steps there is no measurement; that share is printed too.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import statistics
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

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

_FILE = Path(__file__).resolve().parents[1] / "tests" / "calibration" / "known.py"
_LEAST = {"float64": 0.99, "float32": 0.95, "bfloat16": 0.95}
_SIZES = (1, 8, 64, 1000)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a target is missed."""
    options = parser(__doc__)
    options.add_argument("--dtype", choices=list(_LEAST), action="append")
    options.add_argument(
        "--draws", type=int, help="per function and size (default: 40, quick: 5)"
    )
    given = options.parse_args(arguments)
    prepare()
    dtypes = given.dtype or list(_LEAST)
    tasks = [
        (name, dtype, n)
        for dtype in dtypes
        for name, known in _known().KNOWN.items()
        for n in _SIZES
        if DTYPES[dtype] in known.dtypes
    ]
    draws = given.draws or (5 if given.quick else 40)
    work = functools.partial(measure, draws=draws, seed=given.seed)
    rows = [
        row
        for found in each(work, tasks, jobs=given.jobs, words="functions")
        for row in found
    ]
    _print_functions(rows, dtypes)
    targets = _print_coverage(rows, dtypes)
    write_rows(given.out, rows)
    return judge_targets(targets, quick=given.quick)


def measure(task: tuple[str, str, int], *, draws: int, seed: int) -> list[Row]:
    """Two directions times two cotangents at each of `draws` points."""
    name, dtype, n = task
    module = _known()
    first = zlib.crc32(f"{name} {dtype} {n} {seed}".encode()) % 2**31
    rows: list[Row] = []
    for draw in range(draws):
        found = module.measure(module.KNOWN[name], n, DTYPES[dtype], first + draw)
        named = {"function": name, "dtype": dtype, "elements": n, "draw": draw}
        rows += [
            named | {"truth": m.truth, "size": m.size, "error": m.error, "bar": m.bar}
            for m in found
        ] or [named | {"bar": None}]
    return rows


@functools.cache
def _known() -> ModuleType:
    specification = importlib.util.spec_from_file_location("known", _FILE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["known"] = module
    specification.loader.exec_module(module)
    return module


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
    widths = [row["bar"] / row["size"] for row in measured if row["size"]]
    return [
        share(sum(map(_inside, measured)), len(measured)),
        f"{_median_ratio(measured):.1f}",
        f"{statistics.median(widths):.0e}",
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
        met = inside >= _LEAST[dtype] * len(measured)
        targets.append(Target(f"{words} (at least {_LEAST[dtype]:.0%})", met))
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
        row["bar"] / row["error"] if row["error"] else math.inf for row in measured
    )


if __name__ == "__main__":
    sys.exit(main())
