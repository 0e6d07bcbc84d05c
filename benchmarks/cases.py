"""A corpus of small Functions, faulty and healthy, through every referee.

Each file of the corpus defines `op`, `inputs(seed=0)`, `FAULT` (None where it is
healthy), `WHERE` (the aspect in which the fault shows) and perhaps `EXPECT` (the
intended gradient of a surrogate). In scope are the faults that show in the numbers of a
first derivative; the others are listed with what is found of them anyway. Verdicts are
asked for several seeds of the check on the same inputs, to see whether they change.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from referees import CONVICTS, gradcheck, ours
from running import (
    Row,
    Target,
    each,
    judge_targets,
    listed,
    parser,
    prepare,
    print_table,
    seed_everything,
    share,
    write_rows,
)

_IN_SCOPE = ("first derivative", "numerics", "dtype")
_BEYOND = (
    "captured-tensor",
)  # a first derivative, but of a tensor that is no argument
_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "cases"
_GRADCHECK: dict[str, dict[str, bool]] = {
    "slow": {"fast": False},
    "fast": {"fast": True},
    "second": {"fast": False, "second_order": True},  # slow; not in a quick run
}
_REFEREES = {
    "ours": "backproof.check",
    "slow": "gradcheck slow",
    "fast": "gradcheck fast",
    "second": "gradgradcheck",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a target is missed."""
    options = parser(__doc__)
    options.add_argument(
        "folder", type=Path, nargs="?", default=_DEFAULT, help="of the corpus"
    )
    options.add_argument(
        "--seeds", type=int, help="of the check, per case (default: 3, quick: 1)"
    )
    options.add_argument(
        "--only", action="append", help="cases with this in their name"
    )
    given = options.parse_args(arguments)
    files = sorted(given.folder.glob("[0-9]*.py"))
    if not files:
        print(f"no cases in {given.folder}: give the folder of the corpus as argument")
        return 0
    prepare()
    if given.only:
        files = [f for f in files if any(part in f.name for part in given.only)]
    seeds = given.seeds or (1 if given.quick else 3)
    referees = list(_GRADCHECK)[: 2 if given.quick else 3]
    work = functools.partial(measure, first=given.seed, seeds=seeds, referees=referees)
    rows = list(each(work, files, jobs=given.jobs, words="cases"))
    _print_summary(rows)
    _print_cases(rows)
    write_rows(given.out, rows)
    return judge_targets(_targets(rows, seeds), quick=given.quick)


def measure(file: Path, *, first: int, seeds: int, referees: Sequence[str]) -> Row:
    """All referees on one case, each on a freshly loaded module and fresh inputs."""
    module = _load(file)
    row: Row = {
        "case": file.stem,
        "where": module.WHERE,
        "fault": module.FAULT,
        "group": _group(module),
        "verdicts": [],
    }
    for seed in range(first, first + seeds):
        module = _load(file)
        expected = getattr(module, "EXPECT", None)
        options = {} if expected is None else {"expect_backward": expected}
        answer = ours(module.op, _inputs(module), seed=seed, **options)
        row["verdicts"].append(answer.verdict)
        if seed == first:
            row |= answer.row("ours")
    for name in referees:
        module = _load(file)
        row |= gradcheck(module.op, _inputs(module), **_GRADCHECK[name]).row(name)
    return row


def _group(module: ModuleType) -> str:
    if module.FAULT is None:
        return "healthy"
    if module.FAULT in _BEYOND or module.WHERE not in _IN_SCOPE:
        return "faulty, other aspects"
    return "faulty, in scope"


def _inputs(module: ModuleType) -> tuple[object, ...]:
    """The same at every call; whatever the op draws from global generators too."""
    seed_everything(0)
    return tuple(module.inputs(seed=0))


def _load(file: Path) -> ModuleType:
    name = f"case_{file.stem}"
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # torch looks classes up by their module's name
    specification.loader.exec_module(module)
    return module


def _print_summary(rows: list[Row]) -> None:
    print_table(
        f"{len(rows)} cases: accused, by referee",
        ("cases", "accusing is", *_REFEREES.values(), "undecided by us"),
        [
            [
                group,
                "a false alarm" if group == "healthy" else "right",
                *(_share_accused(mine, referee) for referee in _REFEREES),
                Counter(row["ours_verdict"] for row in mine)["inconclusive"],
            ]
            for group in sorted({row["group"] for row in rows})
            for mine in [[row for row in rows if row["group"] == group]]
        ],
    )


def _share_accused(mine: list[Row], referee: str) -> str:
    asked = [row for row in mine if f"{referee}_verdict" in row]
    return share(sum(_accuses(row, referee) for row in asked), len(asked))


def _print_cases(rows: list[Row]) -> None:
    print_table(
        "Case by case",
        (
            "cases",
            "case",
            "where",
            "fault",
            "ours",
            "seeds",
            "slow",
            "fast",
            "gradgrad",
            "words",
        ),
        [
            [
                row["group"],
                row["case"],
                row["where"],
                row["fault"] or "-",
                row["ours_verdict"],
                _verdicts(row),
                *(row.get(f"{name}_verdict") for name in _GRADCHECK),
                row["ours_words"][:90],
            ]
            for row in sorted(rows, key=lambda row: (row["group"], row["case"]))
        ],
    )


def _verdicts(row: Row) -> str:
    counts = Counter(row["verdicts"])
    if len(counts) == 1:
        return f"all {len(row['verdicts'])}"
    return ", ".join(f"{verdict} {count}" for verdict, count in counts.items())


def _targets(rows: list[Row], seeds: int) -> list[Target]:
    faulty = [row for row in rows if row["group"] == "faulty, in scope"]
    missed = [row["case"] for row in faulty if not _accuses(row, "ours")]
    healthy = [row for row in rows if row["group"] == "healthy"]
    accused = [
        row["case"]
        for row in healthy
        if any(verdict in CONVICTS for verdict in row["verdicts"])
    ]
    failed = [
        row["case"] for row in rows if {"raised", "timeout"} & set(row["verdicts"])
    ]
    unstable = [
        row["case"] for row in faulty + healthy if len(set(row["verdicts"])) > 1
    ]
    return [
        Target(
            f"convicted {len(faulty) - len(missed)} of {len(faulty)} faulty in scope "
            f"(all but 2); missed: {listed(missed)}",
            len(missed) <= 2,
        ),
        Target(f"healthy accused: {listed(accused)}", not accused),
        Target(f"the check itself failed on: {listed(failed)}", not failed),
        Target(
            f"verdicts that change over {seeds} seeds: {listed(unstable)}",
            not unstable,
        ),
    ]


def _accuses(row: Row, referee: str) -> bool:
    verdict = row[f"{referee}_verdict"]
    return verdict in CONVICTS or verdict == "alarm"


if __name__ == "__main__":
    sys.exit(main())
