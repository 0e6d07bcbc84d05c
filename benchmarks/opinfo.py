"""How often a referee accuses PyTorch's own operators, which are (nearly all) right.

Every operator with a backward in PyTorch's op_db and autograd_function_db, up to five
of its own sample inputs each, through backproof.check and through gradcheck, slow and
fast, at their defaults. An operator whose gradient really is not its derivative is in
the table EXPLAINED with the reason; a conviction that is not explained there is a false
alarm until somebody shows otherwise.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from injection import inject, nothing, precisions
from operators import Sample, names, samples
from referees import CONVICTS, gradcheck, ours
from running import (
    DTYPES,
    Row,
    Target,
    each,
    judge_targets,
    listed,
    parser,
    prepare,
    print_table,
    share,
    write_rows,
)

from backproof.probe import PRECISIONS

_QUICK_STRIDE = 16  # every 16th operator, two samples each
_ALL = ("float64", "float32", "bfloat16")


@dataclass(frozen=True)
class Explanation:
    """Why an operator is convicted, and in which types that is the reason."""

    kind: str
    words: str
    dtypes: Sequence[str] = _ALL


_UNPOOL = Explanation(
    "PyTorch defect",
    "duplicate indices: backward gathers from one of them (PyTorch skips its own "
    "gradient test there)",
)
_NORMAL = Explanation(
    "by design", "zero gradient by definition, though the seeded sample follows"
)
_ALTERED = Explanation("by design", "a test function with an altered gradient")

EXPLAINED = {
    "max_unpool1d": _UNPOOL,
    "max_unpool2d": _UNPOOL,
    "max_unpool3d": _UNPOOL,
    "nn.functional.max_unpool1d": _UNPOOL,
    "nn.functional.max_unpool2d": _UNPOOL,
    "nn.functional.max_unpool3d": _UNPOOL,
    "as_strided_scatter": Explanation(
        "PyTorch defect",
        "overlapping strides, gradient test marked expectedFailure (issue 88105)",
    ),
    "native_group_norm": Explanation(
        "PyTorch defect",
        "gradient of mean or rstd alone is dropped, expectedFailure (PR 190243)",
    ),
    "normal": _NORMAL,
    "normal.number_mean": _NORMAL,
    "ScaleGradGenVmapAutogradFunction": _ALTERED,
    "ZeroGradientsGenVmapAutogradFunction": _ALTERED,
    "NumpyCubeNotComposableAutogradFunction": Explanation(
        "PyTorch defect", "backward ignores grad_output (test database)"
    ),
    "CubeGenVmapAutogradFunction": Explanation(
        "PyTorch defect",
        "6 * dinput where grad_saved * 6 * x is meant (test database)",
    ),
    "NumpySortAutogradFunction": Explanation(
        "PyTorch defect",
        "forward returns x unsorted, backward is that of a sort (test database)",
    ),
    "special.ndtr": Explanation(
        "PyTorch defect",
        "(1 + erf)/2 loses the left tail: 18 % off at -8.3 (issue 192295)",
    ),
    "nn.functional.hardsigmoid": Explanation(
        "PyTorch defect",
        "float64 backward uses 1/6 rounded to float32: 3e-8 off",
        ("float64",),
    ),
    "logcumsumexp": Explanation(
        "PyTorch defect",
        "backward goes through log(grad) - result: digits lost for inputs of 1e4",
        ("float32", "bfloat16"),
    ),
}
"""Operator -> why it is convicted. Only what was looked at by hand is in here."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a target is missed."""
    options = parser(__doc__)
    options.add_argument("--dtype", choices=_ALL, action="append", help="default: all")
    options.add_argument("--samples", type=int, default=5, help="most of an operator")
    options.add_argument("--only", action="append", help="this operator alone")
    options.add_argument(
        "--skip-gradcheck", action="store_true", help="backproof.check alone"
    )
    options.add_argument(
        "--native",
        action="store_true",
        help="each operator refuses other precisions, as a kernel of one type would, "
        "so that no float64 run can clear it",
    )
    given = options.parse_args(arguments)
    prepare()
    dtypes = given.dtype or list(_ALL)
    tasks = [
        (name, dtype)
        for dtype in dtypes
        for name in names(DTYPES[dtype])[:: _QUICK_STRIDE if given.quick else 1]
        if not given.only or name in given.only
    ]
    work = functools.partial(
        measure,
        most=min(given.samples, 2) if given.quick else given.samples,
        seed=given.seed,
        beside=not given.skip_gradcheck,
        native=given.native,
    )
    rows = [
        row
        for found in each(work, tasks, jobs=given.jobs, words="operators")
        for row in found
    ]
    _print_counts(rows, dtypes)
    _print_coarse_passes(rows, dtypes)
    _print_convictions(rows)
    _print_undecided(rows)
    write_rows(given.out, rows)
    return judge_targets(_targets(rows, dtypes), quick=given.quick)


def measure(
    task: tuple[str, str], *, most: int, seed: int, beside: bool, native: bool
) -> list[Row]:
    """All referees on the samples of one operator in one type."""
    name, dtype = task
    found = samples(name, DTYPES[dtype], most=most)
    if native:
        found = [
            dataclasses.replace(
                s, function=inject(s.function, nothing, precisions(s.inputs))
            )
            for s in found
        ]
    return [_row(sample, dtype, seed=seed, beside=beside) for sample in found]


def _row(sample: Sample, dtype: str, *, seed: int, beside: bool) -> Row:
    row: Row = {
        "operator": sample.operator,
        "index": sample.index,
        "dtype": dtype,
        "elements": sample.num_elements,
        **ours(sample.function, sample.inputs, seed=seed).row("ours"),
    }
    for mode in ("slow", "fast") if beside else ():
        answer = gradcheck(
            sample.function,
            sample.inputs,
            fast=mode == "fast",
            limit=20,
            nondeterminism=sample.nondeterminism,
        )
        row |= answer.row(mode)
    return row


def _print_counts(rows: list[Row], dtypes: Sequence[str]) -> None:
    lines = []
    for dtype in dtypes:
        for referee in ("ours", "slow", "fast"):
            mine = [
                r for r in rows if r["dtype"] == dtype and f"{referee}_verdict" in r
            ]
            if mine:
                lines.append(_count(mine, dtype, referee))
    num_operators = len({row["operator"] for row in rows})
    print_table(
        f"Verdicts on {num_operators} operators of PyTorch ({len(rows)} samples)",
        (
            "dtype",
            "referee",
            "samples",
            "pass",
            "accused",
            "explained",
            "false alarms",
            "undecided or refused",
            "raised",
            "timeout",
            "CPU s",
        ),
        lines,
    )


def _count(mine: list[Row], dtype: str, referee: str) -> list[object]:
    verdicts = Counter(row[f"{referee}_verdict"] for row in mine)
    accused = [row for row in mine if _accuses(row, referee)]
    false = [row for row in accused if _explanation(row) is None]
    undecided = verdicts["inconclusive"] + verdicts["refused"]
    label = {"ours": "backproof.check"}.get(referee, f"gradcheck, {referee}")
    return [
        dtype,
        label,
        len(mine),
        verdicts["pass"],
        len(accused),
        len(accused) - len(false),
        share(len(false), len(mine)),
        share(undecided, len(mine)) if referee == "ours" else None,
        verdicts["raised"],
        verdicts["timeout"],
        f"{sum(row[f'{referee}_seconds'] for row in mine):.0f}",
    ]


def _print_coarse_passes(rows: list[Row], dtypes: Sequence[str]) -> None:
    """Passes in which some input was resolved worse than a pass needs.

    A gradient that is zero on a staircase, or an operator that casts, has no better.
    """
    print()
    for dtype in dtypes:
        needed = PRECISIONS[DTYPES[dtype]].resolution
        passed = [
            row
            for row in rows
            if row["dtype"] == dtype and row["ours_verdict"] == "pass"
        ]
        coarse = [row for row in passed if row["ours_resolution"] > needed]
        print(
            f"{dtype}: passes with an input resolved worse than {needed:g}: "
            f"{share(len(coarse), len(passed))}: "
            f"{listed((row['operator'] for row in coarse), 12)}"
        )


def _print_convictions(rows: list[Row]) -> None:
    lines = []
    convicted = [row for row in rows if _accuses(row, "ours")]
    for operator in dict.fromkeys(row["operator"] for row in convicted):
        mine = [row for row in convicted if row["operator"] == operator]
        for explanation in dict.fromkeys(_explanation(row) for row in mine):
            here = [row for row in mine if _explanation(row) == explanation]
            lines.append(
                [
                    operator,
                    _tally(row["dtype"] for row in here),
                    _tally(_conviction(row) for row in here),
                    explanation.kind if explanation else "UNEXPLAINED",
                    explanation.words if explanation else here[0]["ours_words"],
                ]
            )
    lines.sort(key=lambda line: line[3] == "UNEXPLAINED")
    print_table(
        "Every conviction of ours",
        ("operator", "samples", "verdict", "kind", "why"),
        lines,
    )


def _print_undecided(rows: list[Row]) -> None:
    lines = []
    for verdict in ("inconclusive", "refused", "raised", "timeout"):
        mine = [row for row in rows if row["ours_verdict"] == verdict]
        for operator in dict.fromkeys(row["operator"] for row in mine):
            here = [row for row in mine if row["operator"] == operator]
            lines.append(
                [
                    verdict,
                    operator,
                    _tally(row["dtype"] for row in here),
                    here[0]["ours_words"][:100],
                ]
            )
    print_table(
        "Every sample that we do not decide",
        ("verdict", "operator", "samples", "why (the first)"),
        lines,
    )


def _targets(rows: list[Row], dtypes: Sequence[str]) -> list[Target]:
    targets = []
    for dtype in dtypes:
        mine = [row for row in rows if row["dtype"] == dtype]
        false = [r for r in mine if _accuses(r, "ours") and _explanation(r) is None]
        failed = [r for r in mine if r["ours_verdict"] in ("raised", "timeout")]
        undecided = [
            r for r in mine if r["ours_verdict"] in ("inconclusive", "refused")
        ]
        coarse = dtype == "bfloat16"
        most = 0.003 if coarse else 0.0
        words = f"{dtype}: unexplained convictions {share(len(false), len(mine))}"
        targets += [
            Target(
                f"{words} (at most {most:.1%})",
                len(false) <= most * len(mine),
                always=not coarse,
            ),
            Target(f"{dtype}: the check itself failed on {len(failed)}", not failed),
        ]
        if not coarse:
            words = f"{dtype}: undecided or refused {share(len(undecided), len(mine))}"
            met = len(undecided) < 0.05 * len(mine)
            targets.append(Target(f"{words} (below 5 %)", met, always=False))
    return targets


def _accuses(row: Row, referee: str) -> bool:
    verdict = row.get(f"{referee}_verdict")
    return verdict in CONVICTS or verdict == "alarm"


def _explanation(row: Row) -> Explanation | None:
    found = EXPLAINED.get(row["operator"])
    return found if found is not None and row["dtype"] in found.dtypes else None


def _conviction(row: Row) -> str:
    return " ".join([row["ours_verdict"], *dict.fromkeys(row["ours_codes"])])


def _tally(words: object) -> str:
    return ", ".join(f"{word} {count}" for word, count in Counter(words).items())


if __name__ == "__main__":
    sys.exit(main())
