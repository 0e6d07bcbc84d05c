"""A corpus of small ops, faulty and healthy, through every referee.

Each file of the corpus defines `op`, `inputs(seed=0)`, `FAULT` (None where it is
healthy), `WHERE` (the aspect in which the fault shows) and perhaps `EXPECT` (the
intended gradient of a surrogate). A conviction counts only if one of the laws that
convict looks at that aspect: which do stands in `KINDS`. Ours asks all laws and tries
the contexts that `--contexts` names, and once more the laws alone with several seeds,
to see whether verdicts change. Beside it: gradcheck, gradgradcheck, opcheck.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import textwrap
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from referees import CONVICTS, Answer, gradcheck, opcheck, ours
from running import (
    Row,
    Target,
    apart,
    judge_targets,
    listed,
    parser,
    print_table,
    seed_everything,
    share,
    write_rows,
)

from backproof.records import Judgement, Severity

_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "cases"
_QUICK_STRIDE = 6  # every sixth case
_SHARE = 0.95  # of the faulty that must be convicted by a law of the right kind
_LIMITS = {"ours": 400.0, "laws": 120.0}  # seconds of wall clock, 60 for the others
_PRELOAD = ("torch._dynamo", "torch.export", "backproof.battery.contexts")
_BESIDE = {
    "slow": "gradcheck slow",
    "fast": "gradcheck fast",
    "second": "gradgradcheck",
    "opcheck": "opcheck",
}

KINDS: dict[str, tuple[str, ...]] = {
    # What one backward says at the given inputs, and at equal, zero and extreme ones;
    # of which inputs, captured ones too, and of which outputs. That a surrogate was not
    # declared (BP106) is said of a gradient, and so is a kink on its wrong side.
    "first derivative": (
        *("BP101", "BP104", "BP106", "BP107", "BP108", "BP109", "BP111"),
        *("BP208", "BP209", "BP501", "BP502", "BP504", "BP506", "BP508", "BP801"),
    ),
    # Backward differentiated again, by autograd or by `hessian`.
    "second derivative": ("BP102", "BP307"),
    # Forward mode, by itself and under torch.func.
    "jvp": ("BP103", "BP305", "BP306"),
    # Whatever adds a batch dimension: jacrev and is_grads_batched are vmap over rows.
    "vmap": ("BP301", "BP304", "BP308", "BP309"),
    # Compilers, and what they trust: traces, fake kernels, that writes are declared
    # (BP201), that outputs share no memory but what the schema says (BP204), and that
    # what Python holds beside the call stays as it was when they traced (BP205).
    "compile": (
        *("BP401", "BP402", "BP406", "BP407", "BP408", "BP409"),
        *("BP201", "BP204", "BP205"),
    ),
    # Export, and the traces and fake kernels that it is made of.
    "export": ("BP403", "BP404", "BP405", "BP406", "BP407"),
    # What is kept, freed, shared and overwritten. Memory that was not initialised is
    # whatever was there before: a gradient that is wrong (BP101), not finite (BP109),
    # not the same twice (BP601), not zero where nothing was given (BP505).
    "memory": (
        *("BP202", "BP203", "BP204", "BP701", "BP702"),
        *("BP101", "BP109", "BP505", "BP601"),
    ),
    # Somebody writes: forward, backward, or the caller between them; the second
    # backward and the second call meet what the first has left.
    "mutation": ("BP201", "BP202", "BP203", "BP204", "BP205", "BP206"),
    # Two names for one memory: outputs, saved tensors, or inputs that are the same.
    "aliasing": ("BP203", "BP204", "BP205", "BP209"),
    # The type of the gradient, and the digits that a type keeps: in 16 bits a digit
    # lost is a share of the gradient, and a plainly wrong number (BP101).
    "dtype": ("BP101", "BP110", "BP111", "BP502", "BP507", "BP508"),
    # The same numbers in another layout.
    "stride": ("BP503",),
    # Sizes, at the given one too, and shapes that were broadcast.
    "shape": ("BP101", "BP502", "BP505"),
    # What one call leaves for the next: on ctx, on the class, in buffers, in `.grad` of
    # a tensor (whose gradient is then missing where it belongs), in global settings.
    "state": (
        *("BP203", "BP204", "BP205", "BP206", "BP207", "BP208"),
        *("BP501", "BP601", "BP602"),
    ),
    # Digits and range: a gradient off by little (BP101), out of range, or not finite.
    "numerics": ("BP101", "BP109", "BP110", "BP111", "BP508"),
    # The same twice: by itself, when forward is run again, and for the generators. An
    # op that seeds a generator of its own repeats exactly, and one that then draws
    # something else in backward has the gradient of another function (BP101).
    "determinism": ("BP101", "BP207", "BP601", "BP602"),
    # Settings of the region in which forward ran.
    "autocast": ("BP207", "BP507"),
    # The form of the class, which is read; run, a form that autograd passes by shows
    # as a gradient that is missing or that of another function.
    "static": (
        *(f"BP9{n:02d}" for n in range(1, 50)),
        *("BP101", "BP106", "BP107", "BP501"),
    ),
}
"""Where a fault shows -> the codes of the laws that look there."""


@dataclass(frozen=True)
class Task:
    """One referee asked about one case; `seed` is that of the check."""

    file: Path
    referee: str
    seed: int = 0
    contexts: str = "none"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a target is missed."""
    options = parser(__doc__)
    options.add_argument(
        "folder", type=Path, nargs="?", default=_DEFAULT, help="of the corpus"
    )
    options.add_argument(
        "--contexts",
        help="to try, as `backproof check` has it (default: all, quick: fast)",
    )
    options.add_argument(
        "--seeds", type=int, help="of the laws alone, per case (default: 3, quick: 1)"
    )
    options.add_argument(
        "--only", action="append", help="cases with this in their name"
    )
    options.add_argument(
        "--skip-beside", action="store_true", help="ours alone, without torch's own"
    )
    options.add_argument(
        "--findings",
        action="store_true",
        help="print what is said of each faulty case: what is wrong, where, what to do",
    )
    given = options.parse_args(arguments)
    files = sorted(given.folder.glob("[0-9]*.py"))
    if not files:
        print(f"no cases in {given.folder}: give the folder of the corpus as argument")
        return 0
    files = files[:: _QUICK_STRIDE if given.quick else 1]
    if given.only:
        files = [f for f in files if any(part in f.name for part in given.only)]
    contexts = given.contexts or ("fast" if given.quick else "all")
    if given.findings:
        return _print_findings(files, contexts, given)
    seeds = given.seeds or (1 if given.quick else 3)
    tasks = [
        task
        for file in files
        for task in _tasks(file, contexts, range(given.seed, given.seed + seeds))
        if not (given.skip_beside and task.referee in _BESIDE)
    ]
    answers = apart(
        measure,
        tasks,
        lost=_lost,
        limit=max(_LIMITS.values()),
        jobs=given.jobs,
        words="cases, by referee",
        preload=_PRELOAD,
    )
    rows = _rows(tasks, list(answers))
    _print_summary(rows)
    _print_cases(rows)
    _print_sizes(rows)
    write_rows(given.out, rows)
    return judge_targets(_targets(rows, seeds), quick=given.quick)


# ------------------------------------------------------------------------- measuring


def _tasks(file: Path, contexts: str, seeds: Sequence[int]) -> list[Task]:
    """All that is asked about one case; a seed of its own changes nothing."""
    tasks = [Task(file, "ours", seeds[0], contexts)]
    if len(seeds) > 1:
        tasks += [Task(file, "laws", seed) for seed in seeds]
    return tasks + [Task(file, referee) for referee in _BESIDE]


def measure(task: Task) -> Row:
    """Ask one referee, in a process that has loaded no case yet."""
    module = _load(task.file)
    row: Row = {"case": task.file.stem}
    seed_everything(0)  # the inputs, and whatever the op draws from global generators
    arguments = tuple(module.inputs(seed=0))
    if task.referee in _BESIDE:
        return row | _ask_torch(task.referee, module.op, arguments).row(task.referee)
    expected = getattr(module, "EXPECT", None)
    answer = ours(
        module.op,
        arguments,
        laws=None,
        seed=task.seed,
        limit=_LIMITS["laws" if task.referee == "laws" else "ours"],
        contexts=task.contexts,
        **({} if expected is None else {"expect_backward": expected}),
    )
    if task.referee == "findings":
        return row | {"finding": _finding(answer.judgement, module.WHERE)}
    return row | answer.row(task.referee) | _sizes(answer.judgement)


def _ask_torch(referee: str, op: Any, arguments: tuple[Any, ...]) -> Answer:
    if referee == "opcheck":
        return opcheck(op, arguments)
    second = referee == "second"
    return gradcheck(op, arguments, fast=referee == "fast", second_order=second)


def _sizes(judgement: Judgement | None) -> Row:
    """What became of BP505: whether it looked at other sizes, and if not, why."""
    outcome = judgement.outcome("BP505") if judgement else None
    if outcome is None:
        return {"sizes": "not asked", "sizes_words": "the check ended before"}
    if outcome.status in ("held", "broken"):
        return {"sizes": "re-shaped", "sizes_words": outcome.words}
    refused = outcome.words.startswith("no other size")
    status = "could not be" if refused else "not asked"
    return {"sizes": status, "sizes_words": outcome.words}


def _lost(task: Task, why: str) -> Row:
    """The row of a case whose process died or was late."""
    verdict = "timeout" if why.startswith("over") else "died"
    answer = Answer(verdict, why).row(task.referee)
    return {"case": task.file.stem, **answer, **_sizes(None)}


def _load(file: Path) -> ModuleType:
    """The case as a module. Its operators can be registered once a process."""
    name = f"case_{file.stem}"
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # torch looks classes up by their module's name
    specification.loader.exec_module(module)
    return module


def _labels(file: Path) -> Row:
    """FAULT and WHERE as they are written, for a case that does not even load."""
    written = {
        target.id: statement.value.value
        for statement in ast.parse(file.read_text()).body
        if isinstance(statement, ast.Assign)
        and isinstance(target := statement.targets[0], ast.Name)
        and isinstance(statement.value, ast.Constant)
    }
    return {"where": written["WHERE"], "fault": written["FAULT"]}


def _rows(tasks: Sequence[Task], answers: Sequence[Row]) -> list[Row]:
    """One row a case, with what every referee said of it."""
    rows: dict[str, Row] = {}
    for task, answer in zip(tasks, answers, strict=True):
        row = rows.setdefault(task.file.stem, {**_labels(task.file), "verdicts": []})
        if task.referee == "laws":
            row["verdicts"].append(answer["laws_verdict"])
        else:
            row |= answer
    for row in rows.values():
        row["right_kind"] = [
            code for code in row["ours_codes"] if code in KINDS[row["where"]]
        ]
    return list(rows.values())


# ------------------------------------------------------------------------- findings


def _print_findings(files: list[Path], contexts: str, given: Namespace) -> int:
    """The first finding of every faulty case that is convicted, as a stranger reads it."""
    tasks = [
        Task(file, "findings", given.seed, contexts)
        for file in files
        if _labels(file)["fault"]
    ]
    answers = apart(
        measure,
        tasks,
        lost=_lost,
        limit=_LIMITS["ours"],
        jobs=given.jobs,
        words="cases",
        preload=_PRELOAD,
    )
    for task, answer in zip(tasks, answers, strict=True):
        labels = _labels(task.file)
        print(f"\n{task.file.stem}: {labels['fault']} ({labels['where']})")
        print("\n".join(answer.get("finding", ["  not convicted"])))
    return 0


def _finding(judgement: Judgement | None, where: str) -> list[str]:
    """What, where and what to do: of a finding of the right kind, where there is one."""
    errors = [
        finding
        for finding in (judgement.findings if judgement else ())
        if finding.severity is Severity.ERROR
    ]
    if not errors:
        return ["  not convicted"]
    right = [finding for finding in errors if finding.code in KINDS[where]]
    best = (right or errors)[0]
    place = "nowhere"
    if best.where is not None:
        place = f"at {Path(best.where.file).name}:{best.where.line}"
        place += f": `{best.where.text}`" if best.where.text else ""
    parts = (best.title, place, best.remedy)
    return [
        line
        for k, part in enumerate(parts)
        for line in textwrap.wrap(
            part,
            80,
            initial_indent="         " if k else f"  {best.code}  ",
            subsequent_indent="         ",
        )
    ]


# ------------------------------------------------------------------------- reporting


def _print_summary(rows: list[Row]) -> None:
    print_table(
        f"{len(rows)} cases: faulty ones convicted, by the aspect in which they show",
        ("where", "ours, right kind", "ours, any kind", *_BESIDE.values(), "by"),
        [
            [where, *_counts(mine), " ".join(_codes(mine))]
            for where in [*KINDS, "all"]
            if (
                mine := [r for r in rows if r["fault"] and where in (r["where"], "all")]
            )
        ],
    )
    healthy = [row for row in rows if not row["fault"]]
    print_table(
        "Healthy ones accused",
        ("", "ours", *_BESIDE.values()),
        [
            ["healthy", *_counts(healthy)[1:]],
        ],
    )


def _counts(mine: list[Row]) -> list[str]:
    asked = {
        referee: [r for r in mine if r.get(f"{referee}_verdict") not in _UNASKED]
        for referee in ("ours", *_BESIDE)
    }
    return [
        share(sum(map(_rightly, mine)), len(mine)),
        *(
            share(sum(_accuses(row, referee) for row in known), len(known))
            for referee, known in asked.items()
        ),
    ]


_UNASKED = (None, "not applicable")


def _codes(mine: list[Row]) -> list[str]:
    """The laws that convict, the most frequent first."""
    found = Counter(code for row in mine for code in row["ours_codes"])
    return [f"{code}:{count}" for code, count in found.most_common()]


def _print_cases(rows: list[Row]) -> None:
    print_table(
        "Case by case",
        (
            "case",
            "where",
            "fault",
            "ours",
            "by right kind",
            "by others",
            *_BESIDE,
            "seeds",
            "words",
        ),
        [
            [
                row["case"],
                row["where"],
                row["fault"] or "healthy",
                row["ours_verdict"],
                " ".join(row["right_kind"]) or "-",
                " ".join(c for c in row["ours_codes"] if c not in row["right_kind"]),
                *(row.get(f"{name}_verdict") for name in _BESIDE),
                _seeds(row),
                row["ours_words"][:120],
            ]
            for row in sorted(rows, key=lambda row: (not row["fault"], row["case"]))
        ],
    )


def _seeds(row: Row) -> str:
    counts = Counter(row["verdicts"])
    if len(counts) < 2:
        return f"all {len(row['verdicts'])}" if counts else "-"
    return ", ".join(f"{verdict} {count}" for verdict, count in counts.items())


def _print_sizes(rows: list[Row]) -> None:
    """What BP505 could re-shape, and what not."""
    print_table(
        "Cases re-shaped by BP505",
        ("", "cases", "why, or what was tried, with the number of cases"),
        [
            [
                status,
                len(mine),
                "; ".join(f"{words} {count}" for words, count in why.most_common(3)),
            ]
            for status in ("re-shaped", "could not be", "not asked")
            for mine in [[row for row in rows if row["sizes"] == status]]
            for why in [Counter(row["sizes_words"][:100] for row in mine)]
        ],
    )


def _targets(rows: list[Row], seeds: int) -> list[Target]:
    faulty = [row for row in rows if row["fault"]]
    missed = [row["case"] for row in faulty if not _accuses(row, "ours")]
    other = [
        row["case"] for row in faulty if _accuses(row, "ours") and not _rightly(row)
    ]
    rightly = sum(map(_rightly, faulty))
    accused = [
        row["case"]
        for row in rows
        if not row["fault"]
        and (_accuses(row, "ours") or any(v in CONVICTS for v in row["verdicts"]))
    ]
    failed = [
        row["case"]
        for row in rows
        if {"raised", "timeout", "died"} & {row["ours_verdict"], *row["verdicts"]}
    ]
    unstable = [row["case"] for row in rows if len(set(row["verdicts"])) > 1]
    return [
        Target(
            f"convicted by a law of the right kind {share(rightly, len(faulty))} of "
            f"the faulty (at least {_SHARE:.0%}); by another kind only: "
            f"{listed(other)}; missed: {listed(missed)}",
            rightly >= _SHARE * len(faulty),
            always=False,
        ),
        Target(f"healthy accused: {listed(accused)}", not accused),
        Target(f"the check itself failed on: {listed(failed)}", not failed),
        Target(
            f"verdicts of the laws that change over {seeds} seeds: {listed(unstable)}",
            not unstable,
        ),
    ]


def _accuses(row: Row, referee: str) -> bool:
    verdict = row.get(f"{referee}_verdict")
    return verdict in CONVICTS or verdict == "alarm"


def _rightly(row: Row) -> bool:
    return _accuses(row, "ours") and bool(row["right_kind"])


if __name__ == "__main__":
    sys.exit(main())
