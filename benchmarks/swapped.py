"""The base class swapped, and nothing else: the same numbers and the same verdicts?

Every Function of a folder of cases, of the corpora beside this file, of `tests/zoo` and
of PyTorch's `autograd_function_db`, once as it is written and once with
`backproof.Function` in place of `torch.autograd.Function`. Compared bit for bit: the
outputs and gradients in eager mode, and second derivatives; then what `backproof.check`
says of both, all laws, without contexts.

What may differ: a class whose form cannot work is refused when it is defined, and a
second derivative of which torch's own loses a term, which BP102 shows, is whole or is
refused. Everything else is listed as unexplained, and the status is 1.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from derivatives import first, second, slope_holds
from referees import Answer, ours
from running import (
    Row,
    apart,
    parser,
    print_table,
    seed_everything,
    write_rows,
)
from swapping import Member, copied, corpora, loaded, members_in, swap_all

from backproof.records import Status

_CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"
_QUICK_STRIDE = 6
_LIMIT = 1200.0  # seconds of a whole file
_CHECK_LIMIT = 90.0
_OF_THE_GRADIENT = {"BP101", "BP110"}
_PRELOAD = ("backproof.battery.check", "backproof.definition.function")


@dataclass(frozen=True)
class Task:
    """One file of a corpus, under `root` as it is written, or swapped."""

    module: str
    root: Path
    seed: int
    only: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a difference has no explanation."""
    options = parser(__doc__)
    options.add_argument(
        "folder", type=Path, nargs="?", default=_CASES, help="of the cases"
    )
    options.add_argument("--half", action="store_true", help="every second file")
    options.add_argument(
        "--only", action="append", default=[], help="members with this in their name"
    )
    given = options.parse_args(arguments)
    every = corpora(given.folder)
    names = [name for corpus in every for name in corpus.modules()]
    names = names[:: _QUICK_STRIDE if given.quick else 2 if given.half else 1]
    only = tuple(given.only)
    names = [n for n in names if any(part in n for part in only)] or names
    with tempfile.TemporaryDirectory() as folder:
        roots = [copied(every, Path(folder) / name) for name in ("torch", "backproof")]
        swap_all(roots[1])
        tasks = [Task(name, root, given.seed, only) for name in names for root in roots]
        answers = apart(
            measure,
            tasks,
            lost=_lost,
            limit=_LIMIT,
            jobs=given.jobs,
            words="files, by base class",
            preload=_PRELOAD,
        )
        found = list(answers)
    rows = [
        row
        for before, after in zip(found[::2], found[1::2], strict=True)
        for row in _compared(before, after)
    ]
    write_rows(given.out, rows)
    return _told(rows)


# -------------------------------------------------------------------------- measuring


def measure(task: Task) -> dict[str, Any]:
    """What every member of a file gives, in a process that has loaded nothing else."""
    try:
        module, refusals = loaded(task.module, task.root)
    except Exception as error:
        return _lost(task, f"{type(error).__name__}: {error}")
    found: dict[str, Any] = {}
    for member in members_in(module):
        name = f"{task.module}::{member.name}"
        if not task.only or any(part in name for part in task.only):
            found[name] = {
                "first": _attempt(first, member),
                "again": _attempt(first, member),
                "second": _attempt(second, member),
                "slope": _attempt(slope_holds, member),
                **_verdict(member, task.seed),
            }
    return {"members": found, "refusals": [f"{task.module}: {r}" for r in refusals]}


def _lost(task: Task, why: str) -> dict[str, Any]:
    return {"members": {task.module: {"lost": why}}, "refusals": []}


def _attempt(measured: Callable[..., Any], member: Member) -> dict[str, Any]:
    seed_everything(0)
    target, arguments = member.target(), list(member.inputs())
    function = target.apply if isinstance(target, type) else target
    try:
        return {"values": measured(function, arguments)}
    except Exception as error:
        words = (str(error).strip() or "nothing").splitlines()[0]
        return {"raised": type(error).__name__, "words": words}


def _verdict(member: Member, seed: int) -> dict[str, Any]:
    seed_everything(0)
    target, arguments = member.target(), member.inputs()
    seed_everything(0)
    options = {k: v for k, v in member.options.items() if k not in ("laws", "contexts")}
    answer = ours(
        target,
        arguments,
        laws=None,
        seed=seed,
        limit=_CHECK_LIMIT,
        contexts="none",
        **options,
    )
    return {
        "verdict": answer.verdict,
        "codes": sorted(answer.codes),
        "words": answer.words,
        "laws": _laws(answer),
    }


def _laws(answer: Answer) -> dict[str, str]:
    outcomes = answer.judgement.outcomes if answer.judgement else ()
    return {outcome.code: str(outcome.status) for outcome in outcomes}


# -------------------------------------------------------------------------- comparing


def _compared(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Row]:
    refused = {"difference": "refused at its definition", "explained": True}
    for words in after["refusals"]:
        name, _, rest = words.partition(": ")
        yield {"member": name, **refused, "torch": "", "backproof": rest}
    for name in dict.fromkeys([*before["members"], *after["members"]]):
        pair = [
            side["members"].get(name, {"lost": "absent"}) for side in (before, after)
        ]
        if any("lost" in one for one in pair):
            words = [one.get("lost", "there") for one in pair]
            yield _row(name, "lost", words)  # nothing was compared
            continue
        differences = list(_of_one(name, *pair))
        yield from differences or [_row(name, "", ["", ""], explained=True)]


def _of_one(name: str, stock: Row, mine: Row) -> Iterator[Row]:
    # What reads memory that nobody filled repeats itself now and then.
    repeats = stock["first"] == stock["again"] and "BP601" not in stock["codes"]
    if repeats and not _same(stock, mine, "first"):
        yield _row(name, "first order", [stock["first"], mine["first"]])
    whole = _second_is_whole(stock, mine) or not repeats
    if not _same(stock, mine, "second"):
        pair = [stock["second"], mine["second"]]
        yield _row(name, "second order", pair, explained=whole)
    if (stock["verdict"], stock["codes"]) != (mine["verdict"], mine["codes"]):
        pair = [f"{one['verdict']} {' '.join(one['codes'])}" for one in (stock, mine)]
        only_in_one = set(stock["codes"]) ^ set(mine["codes"])
        explained = (only_in_one == {"BP102"} and whole) or not repeats
        yield _row(name, "verdict", pair, explained=explained)


def _same(stock: Row, mine: Row, order: str) -> bool:
    """Whether both give the same numbers, or both raise."""
    if "raised" in stock[order] and "raised" in mine[order]:
        return True
    return bool(stock[order] == mine[order])


def _second_is_whole(stock: Row, mine: Row) -> bool:
    """Whether torch's loses a term or raises, where ours is the derivative or raises.

    What the derivative is, difference quotients of the gradient say, and BP102. Where
    the gradient itself is convicted there is no right answer: that of an output which
    backward reads is, for autograd, whatever backward says.
    """
    convicted = set(stock["codes"]) & set(mine["codes"]) & _OF_THE_GRADIENT
    return _loses(stock) and (
        bool(convicted) or "raised" in mine["second"] or not _loses(mine)
    )


def _loses(side: Row) -> bool:
    """Whether there is no second derivative, or one that is known to be none."""
    broken = side["laws"].get("BP102") == str(Status.BROKEN)
    return broken or "raised" in side["second"] or side["slope"].get("values") is False


def _row(
    name: str, difference: str, pair: Sequence[Any], *, explained: bool = False
) -> Row:
    return {
        "member": name,
        "difference": difference,
        "torch": pair[0],
        "backproof": pair[1],
        "explained": explained,
    }


def _told(rows: Sequence[Row]) -> int:
    differing = [row for row in rows if row["difference"]]
    print_table(
        "differences, the unexplained first",
        ("member", "what", "torch", "backproof", ""),
        [
            (
                row["member"],
                row["difference"],
                *(_short(row[side], row) for side in ("torch", "backproof")),
                "" if row["explained"] else "UNEXPLAINED",
            )
            for row in sorted(differing, key=lambda row: row["explained"])
        ],
    )
    members = {row["member"] for row in rows}
    unexplained = [row for row in differing if not row["explained"]]
    kinds = sorted({row["difference"] for row in differing})
    counts = [
        f"{sum(row['difference'] == kind for row in differing)} {kind}"
        for kind in kinds
    ]
    print(
        f"\n{len(members)} members, {len(differing)} differences "
        f"({', '.join(counts) or 'none'}), {len(unexplained)} unexplained"
    )
    return int(bool(unexplained))


def _short(side: Any, row: Row) -> str:
    if not isinstance(side, dict):
        return str(side)[:100]
    if "raised" in side:
        return f"{side['raised']}: {side['words']}"[:100]
    other = row["torch" if side is row["backproof"] else "backproof"].get("values", [])
    places = [k for k, v in enumerate(side["values"]) if other[k : k + 1] != [v]]
    return f"{len(side['values'])} tensors, other at {places}" if other else "tensors"


if __name__ == "__main__":
    raise SystemExit(main())
