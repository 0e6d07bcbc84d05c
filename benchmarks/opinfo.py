"""How often a referee accuses PyTorch's own operators, which are (nearly all) right.

Every operator with a backward in PyTorch's op_db and autograd_function_db, up to five
of its own sample inputs each, through backproof.check and through gradcheck, slow and
fast, at their defaults. An operator that really breaks a law is in the table EXPLAINED
with the reason; a conviction that is not explained there is a false alarm until
somebody shows otherwise. `--laws all` asks every law of the battery; by default those
of the gradient at the given inputs, which gradcheck judges too.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from injection import inject, nothing, precisions
from operators import Sample, names, samples
from referees import CONVICTS, GRADIENT_LAWS, Answer, gradcheck, ours
from running import (
    DTYPES,
    Row,
    Target,
    apart,
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
_LIMITS = (300.0, 90.0)  # seconds for an operator, and for one sample alone
_PRELOAD = (
    "torch.testing._internal.common_methods_invocations",
    "torch.testing._internal.autograd_function_db",
    "backproof.battery.check",
)


@dataclass(frozen=True)
class Explanation:
    """Why operators are convicted, in which types and by which laws that is so.

    Among `codes` may be the signal by which an operator ends the process.
    """

    operators: Sequence[str]
    kind: str
    words: str
    dtypes: Sequence[str] = _ALL
    codes: Sequence[str] = GRADIENT_LAWS


_DEFECT, _DESIGN = "PyTorch defect", "by design"

EXPLAINED = (
    Explanation(
        (
            *("max_unpool1d", "max_unpool2d", "max_unpool3d"),
            *(f"nn.functional.max_unpool{n}d" for n in (1, 2, 3)),
        ),
        _DEFECT,
        "duplicate indices: backward gathers from one of them (PyTorch skips its own "
        "gradient test there), and forward mode does not",
        codes=(*GRADIENT_LAWS, "BP103"),
    ),
    Explanation(
        ("as_strided_scatter",),
        _DEFECT,
        "overlapping strides, gradient test marked expectedFailure (issue 88105); "
        "reads memory, whatever the strides",
        codes=(*GRADIENT_LAWS, "BP103", "BP503"),
    ),
    Explanation(
        ("as_strided", "as_strided.partial_views", "as_strided_copy"),
        _DESIGN,
        "reads memory, whatever the strides",
        codes=("BP503",),
    ),
    Explanation(
        ("unsafe_chunk", "unsafe_split"),
        _DESIGN,
        "views that autograd is not told of: that is what is unsafe about them",
        codes=("BP204",),
    ),
    Explanation(
        ("native_group_norm",),
        _DEFECT,
        "gradient of mean or rstd alone is dropped, expectedFailure (PR 190243)",
        codes=(*GRADIENT_LAWS, "BP506"),
    ),
    Explanation(
        ("native_group_norm",),
        _DEFECT,
        "a weight that is not contiguous is read as if it were: 3.6 off",
        codes=("BP503",),
    ),
    Explanation(
        ("normal", "normal.number_mean"),
        _DESIGN,
        "zero gradient by definition, though the seeded sample follows",
    ),
    Explanation(
        ("nn.functional.dropout", "nn.functional.alpha_dropout"),
        _DESIGN,
        "the database seeds each call, so that the mask follows the order of memory",
        codes=("BP503",),
    ),
    Explanation(
        (
            "ScaleGradGenVmapAutogradFunction",
            "ZeroGradientsGenVmapAutogradFunction",
        ),
        _DESIGN,
        "a test function with an altered gradient",
        codes=(*GRADIENT_LAWS, "BP506"),
    ),
    Explanation(
        ("NumpyCubeNotComposableAutogradFunction",),
        _DEFECT,
        "backward ignores grad_output (test database)",
    ),
    Explanation(
        ("CubeGenVmapAutogradFunction",),
        _DEFECT,
        "6 * dinput where grad_saved * 6 * x is meant (test database)",
        codes=(*GRADIENT_LAWS, "BP102", "BP103"),
    ),
    Explanation(
        ("NumpySortAutogradFunction",),
        _DEFECT,
        "forward returns x unsorted, backward is that of a sort (test database)",
    ),
    Explanation(
        ("special.ndtr",),
        _DEFECT,
        "(1 + erf)/2 loses the left tail: 18 % off at -8.3 (issue 192295)",
    ),
    Explanation(
        ("special.log_ndtr",),
        _DEFECT,
        "backward goes through exp(-(y + x²/2)): 1.9 times too large at -1e8, inf from "
        "-1e10 on",
        codes=("BP508",),
    ),
    Explanation(
        ("nn.functional.hardsigmoid",),
        _DEFECT,
        "float64 backward uses 1/6 rounded to float32: 3e-8 off",
        ("float64",),
    ),
    Explanation(
        ("logcumsumexp",),
        _DEFECT,
        "backward goes through log(grad) - result: digits lost for inputs of 1e4",
        ("float32", "bfloat16"),
    ),
    Explanation(
        ("logcumsumexp",),
        _DEFECT,
        "the same in float32 at larger inputs; forward mode is 6e-8 off in float64",
        codes=("BP103", "BP508"),
    ),
    Explanation(
        ("cholesky_inverse",),
        _DEFECT,
        "forward mode is wrong: -0.0021 for a derivative of -0.0052",
        codes=("BP103",),
    ),
    Explanation(
        ("index_reduce.amin", "index_reduce.amax"),
        _DEFECT,
        "include_self=False: where self equals the source, which is the only one to "
        "count, that gets half of its gradient",
        codes=("BP209",),
    ),
    Explanation(
        ("nextafter",),
        _DEFECT,
        "where both inputs are equal both gradients are zero, and the result is theirs",
        codes=("BP209",),
    ),
    Explanation(
        ("nn.functional.linear_cross_entropy.chunked",),
        _DESIGN,
        "no second order, as documented; zero instead of an error",
        codes=("BP102",),
    ),
    Explanation(
        (
            *(f"polygamma.polygamma_n_{n}" for n in range(5)),
            "special.polygamma.special_polygamma_n_0",
        ),
        _DEFECT,
        "at a pole polygamma(1, x) is finite (7e31 at -3), and its derivative is not",
        codes=("BP508",),
    ),
    Explanation(
        ("linalg.householder_product", "ormqr"),
        _DEFECT,
        "backward undoes each reflector, which loses all digits where they are far "
        "from orthogonal: 2e97 for 2e61 at inputs times 2^16",
        codes=("BP508",),
    ),
)
"""Why operators are convicted. Only what was looked at by hand is in here."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a target is missed."""
    options = parser(__doc__)
    options.add_argument("--dtype", choices=_ALL, action="append", help="default: all")
    options.add_argument(
        "--laws",
        choices=("gradient", "all"),
        default="gradient",
        help="which of ours are asked (default: %(default)s)",
    )
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
    most = min(given.samples, 2) if given.quick else given.samples
    tasks = [
        Task(name, dtype, tuple(range(most)))
        for dtype in dtypes
        for name in names(DTYPES[dtype])[:: _QUICK_STRIDE if given.quick else 1]
        if not given.only or name in given.only
    ]
    work = functools.partial(
        measure,
        seed=given.seed,
        laws=GRADIENT_LAWS if given.laws == "gradient" else None,
        beside=not given.skip_gradcheck,
        native=given.native,
    )
    rows = list(_measured(work, tasks, jobs=given.jobs))
    _print_counts(rows, dtypes)
    _print_coarse_passes(rows, dtypes)
    _print_convictions(rows)
    _print_undecided(rows)
    write_rows(given.out, rows)
    return judge_targets(_targets(rows, dtypes), quick=given.quick)


@dataclass(frozen=True)
class Task:
    """An operator in one type, and which of its samples."""

    operator: str
    dtype: str
    chosen: tuple[int, ...]


def _measured(
    work: Callable[[Task], list[Row]], tasks: Sequence[Task], *, jobs: int
) -> Iterator[Row]:
    """The rows of all tasks; where a process dies, each sample has another to itself."""
    lost: list[Task] = []

    def put_off(task: Task, why: str) -> list[Row]:
        lost.append(task)
        return []

    def given_up(task: Task, why: str) -> list[Row]:
        late = why.startswith("over")
        answer = Answer("timeout") if late else Answer("died", why, codes=(why,))
        (index,) = task.chosen
        return [_named(task, index) | answer.row("ours")]

    run = functools.partial(apart, work, jobs=jobs, preload=_PRELOAD)
    operators = run(tasks, lost=put_off, limit=_LIMITS[0], words="operators")
    yield from itertools.chain.from_iterable(operators)
    single = [
        dataclasses.replace(task, chosen=(k,)) for task in lost for k in task.chosen
    ]
    alone = run(single, lost=given_up, limit=_LIMITS[1], words="samples")
    yield from itertools.chain.from_iterable(alone)


def measure(
    task: Task,
    *,
    seed: int,
    laws: Sequence[str] | None,
    beside: bool,
    native: bool,
) -> list[Row]:
    """All referees on the samples of one operator in one type."""
    found = samples(task.operator, DTYPES[task.dtype], most=max(task.chosen) + 1)
    rows = []
    for index in (k for k in task.chosen if k < len(found)):
        sample = found[index]
        if native:
            function = inject(sample.function, nothing, precisions(sample.inputs))
            sample = dataclasses.replace(sample, function=function)
        answer = ours(sample.function, sample.inputs, seed=seed, laws=laws)
        row = _named(task, index)
        row |= {"elements": sample.num_elements, **answer.row("ours")}
        rows.append(row | (_gradchecked(sample) if beside else {}))
    return rows


def _named(task: Task, index: int) -> Row:
    """Which sample: the `index`th of those that are kept."""
    return {"operator": task.operator, "index": index, "dtype": task.dtype}


def _gradchecked(sample: Sample) -> Row:
    row: Row = {}
    for mode in ("slow", "fast"):
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
    false = [row for row in accused if _explanation(row, referee) is None]
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
    return verdict in (*CONVICTS, "alarm", "died")


def _explanation(row: Row, referee: str = "ours") -> Explanation | None:
    """What explains an accusation: ours only if it covers every code."""
    known = [
        explanation
        for explanation in EXPLAINED
        if row["operator"] in explanation.operators
        and row["dtype"] in explanation.dtypes
    ]
    codes = set(row["ours_codes"]) if referee == "ours" else set()
    if not codes <= {code for explanation in known for code in explanation.codes}:
        return None
    known.sort(key=lambda explanation: not codes & set(explanation.codes))
    return known[0] if known else None


def _conviction(row: Row) -> str:
    return " ".join([row["ours_verdict"], *dict.fromkeys(row["ours_codes"])])


def _tally(words: object) -> str:
    return ", ".join(f"{word} {count}" for word, count in Counter(words).items())


if __name__ == "__main__":
    sys.exit(main())
