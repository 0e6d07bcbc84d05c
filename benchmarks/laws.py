"""Does each law find what it is for, and leave alone what only looks like it?

Two corpora. `planted/` has a file for each law: faults that this law alone must find,
and right twins that are tempting to accuse, first by their own law and then by all of
them. `unseen/` was written without sight of the laws: each file has one fault or none,
and all laws are asked, in every context but Inductor's (quick: in none). Calls are
forward and backward calls of one law asked alone, in the median over its members; the
first of each are what any law needs.
"""

from __future__ import annotations

import functools
import importlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from running import (
    Row,
    Target,
    TimeLimit,
    each,
    judge_targets,
    listed,
    parser,
    prepare,
    print_table,
    seed_everything,
    share,
    time_limit,
    write_rows,
)

import backproof
from backproof import codes
from backproof.battery.laws import LAWS
from backproof.errors import BadInput
from backproof.records import Finding, Judgement, Severity, Status

_FOLDER = Path(__file__).resolve().parent
_LIMITS = {False: 60.0, True: 600.0}
"""Seconds for one check, without and with contexts."""

_CONVICTS = ("wrong", "crashed", "surrogate")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a fault is missed or a twin accused."""
    options = parser(__doc__)
    options.add_argument(
        "--only",
        action="append",
        metavar="PART",
        help="codes, such as BP503, or members with this in their name",
    )
    options.add_argument(
        "--section",
        choices=("planted", "unseen"),
        help="one corpus only (default: both)",
    )
    given = options.parse_args(arguments)
    prepare()
    planted, unseen = [], []
    if given.section != "unseen":
        planted = _planted(given.only, quick=given.quick, seed=given.seed)
    if given.section != "planted":
        unseen = _unseen(given.only, quick=given.quick, seed=given.seed)
    asked = len(planted)
    rows = list(each(measure, planted + unseen, jobs=given.jobs, words="members"))
    if planted:
        _print_planted(rows[:asked])
    if unseen:
        _print_unseen(rows[asked:])
    write_rows(given.out, rows)
    return judge_targets(_targets(rows[:asked], rows[asked:]), quick=given.quick)


# ------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Task:
    """One check: who is asked, by module and name, and what `check` is told."""

    module: str
    name: str
    planted: bool
    about: str
    options: dict[str, Any] = field(default_factory=dict)
    all_laws: bool = False


def _planted(only: Sequence[str] | None, *, quick: bool, seed: int) -> list[Task]:
    """Each member before its own law; the twins, unless quick, before all laws too."""
    tasks = []
    for file in sorted((_FOLDER / "planted").glob("bp*.py")):
        module = importlib.import_module(f"planted.{file.stem}")
        members = [*module.FAULTS, *module.TWINS]
        if quick:
            members = [module.FAULTS[0], module.TWINS[0]]
        for member in members:
            if not _wanted(only, member.code, f"{file.stem}::{member.name}"):
                continue
            alone = {"seed": seed, **_alone(member.code, member.options)}
            if quick and {**member.options, **alone}.get("contexts"):
                continue  # they take seconds each
            about = (module.__name__, member.name, member.planted, member.code)
            tasks.append(Task(*about, alone))
            if not member.planted and not quick:
                tasks.append(Task(*about, {"seed": seed}, all_laws=True))
    return tasks


def _alone(code: str, declared: dict[str, Any]) -> dict[str, Any]:
    """What makes `check` ask the law `code` and no other."""
    laws = [law.code for law in LAWS if law.code == code]
    if declared.get("contexts") or laws:
        return {"laws": laws}
    return {"laws": [], "contexts": _contexts_of(code)}


@functools.cache
def _contexts_of(code: str) -> tuple[str, ...]:
    """Names of the contexts that carry `code`, but for those of Inductor."""
    from backproof.battery.contexts import CONTEXTS

    return tuple(c.name for c in CONTEXTS if c.code == code and not c.inductor)


def _unseen(only: Sequence[str] | None, *, quick: bool, seed: int) -> list[Task]:
    """Each file of the unseen corpus before all laws."""
    tasks = []
    for file in sorted((_FOLDER / "unseen").glob("[fh][0-9]*.py")):
        module = importlib.import_module(f"unseen.{file.stem}")
        if not _wanted(only, "", file.stem):
            continue
        options = {"seed": seed, "contexts": "none" if quick else "all,-inductor"}
        planted = module.FAULT is not None
        tasks.append(
            Task(module.__name__, file.stem, planted, module.KIND, options, True)
        )
    return tasks


def _wanted(only: Sequence[str] | None, code: str, name: str) -> bool:
    return not only or any(part == code or part in name for part in only)


def measure(task: Task) -> Row:
    """Ask for one member, on fresh inputs."""
    module = importlib.import_module(task.module)
    op, inputs, declared = _subject(module, task)
    options = {**declared, **task.options}
    row: Row = {
        "module": task.module,
        "member": task.name,
        "planted": task.planted,
        "about": task.about,
        "all_laws": task.all_laws,
        **_answer(op, inputs, options),
    }
    own = [code for code in row["codes"] + row["notes"] if code == task.about]
    convicted = row["verdict"] in _CONVICTS
    return row | {"accused": convicted if task.all_laws else bool(own)}


def _subject(module: ModuleType, task: Task) -> tuple[Any, Any, dict[str, Any]]:
    """What is checked, on what, and what is declared of it."""
    seed_everything(0)
    if not module.__name__.startswith("planted."):
        expected = getattr(module, "EXPECT", None)
        declared = {} if expected is None else {"expect_backward": expected}
        return module.op, module.inputs(seed=0), declared
    members = module.FAULTS if task.planted else module.TWINS
    (member,) = [m for m in members if m.name == task.name]
    return member.subject(), member.inputs(), member.options


def _answer(op: Callable[..., Any], inputs: Any, options: dict[str, Any]) -> Row:
    """What `check` says: a verdict in a word, codes of errors and of notes, and cost."""
    start = time.perf_counter()
    limit = _LIMITS[options.get("contexts", "none") != "none"]
    try:
        with time_limit(limit):
            judgement = backproof.check(op, *inputs, **options).subjects[0]
    except TimeLimit:
        return _no_answer("timeout", f"over {limit:g} s")
    except BadInput as refusal:
        return _no_answer("refused", refusal)
    except Exception as failure:  # a checker that raises is a result
        return _no_answer("raised", f"{type(failure).__name__}: {failure}")
    return {
        "verdict": str(judgement.verdict),
        "codes": _codes(judgement.findings, Severity.ERROR),
        "notes": _codes(judgement.findings, Severity.NOTE),
        "words": _words(judgement),
        "forwards": _calls(judgement, "forward"),
        "backwards": _calls(judgement, "backward"),
        "seconds": time.perf_counter() - start,
    }


def _no_answer(verdict: str, words: object) -> Row:
    return {
        "verdict": verdict,
        "codes": [],
        "notes": [],
        "words": " ".join(str(words).split())[:240],
        "forwards": None,
        "backwards": None,
        "seconds": None,
    }


def _codes(findings: Sequence[Finding], severity: Severity) -> list[str]:
    return list(dict.fromkeys(f.code for f in findings if f.severity is severity))


def _calls(judgement: Judgement, direction: str) -> int:
    """Those of the float64 stage included."""
    return sum(n for key, n in judgement.calls.items() if key.startswith(direction))


def _words(judgement: Judgement) -> str:
    """What was found, and what was said instead where little was asked."""
    found = sorted(judgement.findings, key=lambda f: f.severity is Severity.NOTE)
    said = [f"{f.code} {f.title} {f.words}" for f in found]
    quiet = judgement.outcomes
    if len(quiet) > 1:
        quiet = tuple(o for o in quiet if o.status is Status.INCONCLUSIVE)
    said += [f"{o.code} {o.status}: {o.words}" for o in quiet]
    return " ".join("; ".join(said).split())[:240]


# ------------------------------------------------------------------------- reporting


def _print_planted(rows: list[Row]) -> None:
    print_table(
        "Planted faults and their right twins: each before its own law, and the twins "
        "before all laws",
        (
            "code",
            "law",
            "faults found",
            "twins accused",
            "by any law",
            "by",
            "forwards",
            "backwards",
            "seconds",
        ),
        [
            _line_of(code, [row for row in rows if row["about"] == code])
            for code in dict.fromkeys(row["about"] for row in rows)
        ],
    )
    _print_exceptions("Planted", rows)


def _line_of(code: str, rows: list[Row]) -> list[object]:
    alone = [row for row in rows if not row["all_laws"]]
    faults = [row for row in alone if row["planted"]]
    twins = [row for row in alone if not row["planted"]]
    together = [row for row in rows if row["all_laws"]]
    return [
        code,
        codes.page(code).title[:44],
        _count(faults),
        _count(twins),
        _count(together) if together else "-",
        " ".join(sorted({c for row in together for c in row["codes"]})) or "-",
        *(_median(alone, key) for key in ("forwards", "backwards", "seconds")),
    ]


def _count(rows: list[Row]) -> str:
    return f"{sum(row['accused'] for row in rows)} of {len(rows)}"


def _median(rows: list[Row], key: str) -> object:
    known = [row[key] for row in rows if row[key] is not None]
    if not known or (key != "seconds" and not any(known)):
        return "-"  # contexts do not count
    middle = statistics.median(known)
    return f"{middle:.2f}" if key == "seconds" else round(middle)


def _print_unseen(rows: list[Row]) -> None:
    print_table(
        "Written without sight of the laws, before all of them",
        ("kind", "faults found", "healthy accused", "found by"),
        [
            [
                kind,
                _count(faults) if faults else "-",
                _count(healthy) if healthy else "-",
                " ".join(sorted({c for row in faults for c in row["codes"]})) or "-",
            ]
            for kind in sorted({row["about"] for row in rows})
            for mine in [[row for row in rows if row["about"] == kind]]
            for faults in [[row for row in mine if row["planted"]]]
            for healthy in [[row for row in mine if not row["planted"]]]
        ],
    )
    _print_exceptions("Unseen", rows)


def _print_exceptions(corpus: str, rows: list[Row]) -> None:
    odd = [row for row in rows if row["accused"] is not row["planted"]]
    odd += [row for row in rows if not row["planted"] and _unanswered(row)]
    print_table(
        f"{corpus}: missed, falsely accused, not answered",
        ("about", "member", "asked", "verdict", "words"),
        [
            [
                row["about"],
                row["member"],
                "all laws" if row["all_laws"] else "its law",
                _fate(row),
                row["words"][:150],
            ]
            for row in odd
        ],
    )


def _fate(row: Row) -> str:
    if _unanswered(row):
        return str(row["verdict"])
    return "missed" if row["planted"] else f"accused: {row['verdict']}"


def _unanswered(row: Row) -> bool:
    return row["verdict"] in ("timeout", "refused", "raised")


def _targets(planted: list[Row], unseen: list[Row]) -> list[Target]:
    targets = []
    if planted:
        faults = [row for row in planted if row["planted"]]
        alone = [r for r in planted if not r["planted"] and not r["all_laws"]]
        together = [r for r in planted if not r["planted"] and r["all_laws"]]
        targets += [
            _found("planted faults found by their own law", faults),
            _spared("right twins accused by their own law", alone),
        ]
        if together:
            targets.append(_spared("right twins accused by any law", together))
    if unseen:
        # Some faults show in a context only, and a quick run tries none.
        faults = [row for row in unseen if row["planted"]]
        healthy = [row for row in unseen if not row["planted"]]
        targets += [
            _found("unseen faults found", faults, always=False),
            _spared("unseen healthy ops accused", healthy),
        ]
    everything = planted + unseen
    silent = [row["member"] for row in everything if _unanswered(row)]
    words = f"not answered: {len(silent)} of {len(everything)} ({listed(silent)})"
    return [*targets, Target(words, not silent)]


def _found(words: str, faults: list[Row], *, always: bool = True) -> Target:
    missed = [row["member"] for row in faults if not row["accused"]]
    found = share(len(faults) - len(missed), len(faults))
    return Target(f"{words}: {found} (missed: {listed(missed)})", not missed, always)


def _spared(words: str, right: list[Row]) -> Target:
    accused = [row["member"] for row in right if row["accused"]]
    counted = share(len(accused), len(right))
    return Target(f"{words}: {counted} ({listed(accused)})", not accused)


if __name__ == "__main__":
    sys.exit(main())
