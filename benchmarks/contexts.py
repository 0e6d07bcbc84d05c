"""The four stock baselines in every context: does our table agree with an independent one?

The folder holds `contexts.py`, which runs an op in 71 contexts and compares it with the
same op in plain torch, and `stock.py`, with that op in torch's own mechanisms. Their
`WRONG` is our `wrong` or `torch`; `right` and `refuses` are the same. A quick run leaves
out what compiles and exports.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from running import (
    Row,
    Target,
    each,
    judge_targets,
    listed,
    parser,
    print_table,
    write_rows,
)

_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "contexts"
_BASELINES = ("ctx_function", "setup_function", "numpy_function", "library_op")
_SECONDS = 60.0  # for all contexts without Inductor, of one baseline
_SAME = {"right": "right", "refuses": "refuses", "wrong": "WRONG", "torch": "WRONG"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a context disagrees."""
    options = parser(__doc__)
    options.add_argument(
        "folder", type=Path, nargs="?", default=_DEFAULT, help="of contexts.py"
    )
    options.add_argument(
        "--only", default="all", help="contexts, as `--contexts` has it"
    )
    given = options.parse_args(arguments)
    if not (given.folder / "contexts.py").exists():
        print(f"no contexts.py in {given.folder}: give its folder as argument")
        return 0
    asked = "fast" if given.quick else given.only
    work = functools.partial(measure, folder=given.folder, asked=asked, seed=given.seed)
    rows = [
        r
        for found in each(work, _BASELINES, jobs=given.jobs, words="baselines")
        for r in found
    ]
    _print_summary(rows)
    _print_disagreements(rows)
    write_rows(given.out, rows)
    return judge_targets(_targets(rows), quick=given.quick)


def measure(baseline: str, *, folder: Path, asked: str, seed: int) -> list[Row]:
    """Both tables of one baseline, a row a context."""
    import torch.distributed as distributed

    from backproof.battery.contexts import CONTEXTS
    from backproof.battery.survey.selection import select
    from backproof.battery.survey.survey import survey
    from backproof.subject import Case, subject_of
    from backproof.trial import Trial

    theirs, stock = _load(folder, "contexts"), _load(folder, "stock")
    op = getattr(stock, baseline)
    chosen = select(asked, CONTEXTS)
    shared = [c.name for c in chosen if c.name in theirs.CTX]
    inputs = tuple(theirs.leaf())
    clock = _Clock()
    trial = Trial(subject_of(op), Case(inputs), seed=seed)
    cells = list(survey(trial, chosen, on_phase=clock.start))
    clock.start("")
    told = {name: verdict for name, verdict, _ in theirs.run(op, shared)}
    if distributed.is_initialized():
        distributed.destroy_process_group()  # theirs stays, and would keep ours away
    inductor = {c.name for c in chosen if c.inductor}
    return [
        {
            "baseline": baseline,
            "context": cell.name,
            "code": cell.code,
            "inductor": cell.name in inductor,
            "ours": str(cell.status),
            "words": cell.words,
            "theirs": told.get(cell.name, ""),
            "agrees": _agrees(str(cell.status), told.get(cell.name, "")),
            "seconds": clock.seconds[f"context {cell.name}"],
        }
        for cell in cells
    ]


class _Clock:
    """The wall time of each phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._name, self._since = "", time.perf_counter()

    def start(self, name: str) -> None:
        """`name` begins, and what ran until now has ended."""
        now = time.perf_counter()
        self.seconds[self._name] = now - self._since
        self._name, self._since = name, now


def _agrees(ours: str, theirs: str) -> bool | None:
    """None where they do not have this context."""
    return _SAME.get(ours) == theirs.partition(" ")[0] if theirs else None


def _load(folder: Path, name: str) -> ModuleType:
    """A module of the folder, under a name of its own: this file is called like one."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # for what they import from each other
    specification = importlib.util.spec_from_file_location(
        f"matrix_{name}", folder / f"{name}.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[module.__name__] = module
    specification.loader.exec_module(module)
    return module


def _print_summary(rows: list[Row]) -> None:
    print_table(
        "The baselines",
        (
            "baseline",
            "contexts",
            "shared",
            "agree",
            *_SAME,
            "others",
            "s",
            "inductor s",
        ),
        [
            [
                baseline,
                len(mine),
                sum(row["agrees"] is not None for row in mine),
                sum(row["agrees"] is True for row in mine),
                *(counts[status] for status in _SAME),
                sum(counts.values()) - sum(counts[status] for status in _SAME),
                _seconds(mine, inductor=False),
                _seconds(mine, inductor=True),
            ]
            for baseline in _BASELINES
            for mine in [[row for row in rows if row["baseline"] == baseline]]
            for counts in [Counter(row["ours"] for row in mine)]
        ],
    )


def _print_disagreements(rows: list[Row]) -> None:
    table: list[list[Any]] = [
        [row["baseline"], row["context"], row["ours"], row["theirs"][:40], row["words"]]
        for row in rows
        if row["agrees"] is False
    ]
    if table:
        header = ("baseline", "context", "ours", "theirs", "words")
        print_table("Where the two disagree", header, table)


def _seconds(rows: list[Row], *, inductor: bool) -> float:
    return sum(row["seconds"] for row in rows if row["inductor"] is inductor)


def _targets(rows: list[Row]) -> list[Target]:
    shared = [row for row in rows if row["agrees"] is not None]
    off = [f"{r['baseline']}: {r['context']}" for r in shared if not r["agrees"]]
    slowest = max(
        _seconds([r for r in rows if r["baseline"] == baseline], inductor=False)
        for baseline in _BASELINES
    )
    return [
        Target(
            f"agree on {len(shared) - len(off)} of {len(shared)}; not on {listed(off)}",
            not off,
        ),
        Target(
            f"all contexts without Inductor in {slowest:.0f} s (at most {_SECONDS:.0f})",
            slowest <= _SECONDS,
            always=False,
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
