"""Does diagnosis name what is wrong with a gradient, and where?

The corpus `known_causes/` has Functions with one mistake each, whose cause and place are
known: `blind/` was written without sight of diagnosis, `seen/` with it. Each is checked
by all laws, in float64 and float32 (complex ones in their two). A cause is right where
it is one of those that the fault names, or where the law that is for it convicts (table
`BY_LAW`); a region is right where it holds the elements that are wrong and no other.
Causes and regions are shares of what was convicted. Forwards are what diagnosis took,
against what the check takes without it.

`--section single`: one wrong element among a million must be found by its exact index,
within 2 log2(n) + 10 forwards. `--section budget`: diagnosis takes at most as many
forwards as the check does, and the verdict does not depend on it.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from known_causes.fault import Fault
from known_causes.proof import HERE, different, faults, gradients, in_double, parameters
from running import (
    Row,
    Target,
    TimeLimit,
    apart,
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
from torch import Tensor

import backproof
from backproof.records import Evidence, Judgement, Severity, Status
from backproof.source import method_of

BY_LAW: dict[str, tuple[str, ...]] = {
    # Right on the plain call, so that no gradient there is to be explained. The law
    # that makes the variation says in its title which one shows the fault: strides,
    # which inputs need a gradient, the second backward, a type, a second call.
    "variant": ("BP503", "BP504", "BP206", "BP110", "BP205"),
    # A value of another call: kept on ctx past a write, in a buffer that the next call
    # overwrites, on the class, in a cache; what is drawn again; what does not repeat.
    "stale": ("BP203", "BP204", "BP205", "BP207", "BP601"),
    # Digits that are lost are the law BP110 itself.
    "precision": ("BP110",),
}
"""Causes that other laws than those of the gradient see, by design, and their codes."""

CAUSES = tuple(sorted(path.stem for path in (HERE / "blind").glob("[a-z]*.py")))
NOT_EXPLAINED = "not explained"
_HALVES = ("seen", "blind")
_CONVICTS = ("wrong", "crashed", "surrogate")
_LEAST_FORWARDS = 100  # that diagnosis may take, however few the check does
_LIMIT = 300.0  # seconds for one check
_QUICK_LARGEST = 20_000  # elements of all arguments, above which quick leaves it out
_RIGHT, _WRONG, _REGION = 0.90, 0.02, 0.90  # the targets


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a target is missed."""
    options = parser(__doc__)
    options.add_argument(
        "--half", choices=_HALVES, help="of the corpus (default: both)"
    )
    options.add_argument(
        "--only",
        action="append",
        metavar="PART",
        help="a cause, or faults with this in their name",
    )
    options.add_argument(
        "--section",
        choices=tuple(_SECTIONS),
        action="append",
        help="one part only (default: all)",
    )
    options.add_argument(
        "--laws", help="codes to ask, with commas between (default: all laws)"
    )
    options.add_argument(
        "--seeds", type=int, help="of section `single`, an op (default: 50, quick: 3)"
    )
    given = options.parse_args(arguments)
    prepare()
    plan = Plan(
        tuple(_tasks(given.half, given.only, quick=given.quick)),
        given.seed,
        given.jobs,
        given.laws.split(",") if given.laws else None,
        given.seeds or (3 if given.quick else 50),
        quick=given.quick,
    )
    rows, targets = [], []
    for section in given.section or _SECTIONS:
        found, judged = _SECTIONS[section](plan)
        rows += found
        targets += judged
    write_rows(given.out, rows)
    return judge_targets(targets, quick=given.quick)


@dataclass(frozen=True)
class Task:
    """One fault in one type."""

    half: str
    fault: str
    dtype: str


@dataclass(frozen=True)
class Plan:
    """What all sections are told."""

    tasks: tuple[Task, ...]
    seed: int
    jobs: int
    laws: Sequence[str] | None
    seeds: int
    quick: bool


def _alone(work: Callable[[Task], Row], plan: Plan, words: str) -> list[Row]:
    """A row a fault, each in a process of its own: a stale value is not to travel."""
    return list(
        apart(
            work,
            plan.tasks,
            lost=_lost,
            limit=3 * _LIMIT,
            jobs=plan.jobs,
            words=words,
            preload=("backproof.battery.check",),
        )
    )


def _lost(task: Task, why: str) -> Row:
    return _about(task) | {"verdict": None, "words": why, "cause": "failed"}


def _about(task: Task) -> Row:
    return {
        "half": task.half,
        "fault": task.fault,
        "about": _cause(_corpus(task.half)[task.fault]),
        "dtype": task.dtype,
    }


Section = Callable[[Plan], tuple[list[Row], list[Target]]]


def _tasks(
    half: str | None, only: Sequence[str] | None, *, quick: bool
) -> Iterator[Task]:
    """Every fault in every type that it shows in; quick: one small one a cause, once."""
    for one in [half] if half else _HALVES:
        met = set()
        for fault in _corpus(one).values():
            if only and not any(_wanted(part, fault) for part in only):
                continue
            if quick and (_cause(fault) in met or _size(fault) > _QUICK_LARGEST):
                continue
            met.add(_cause(fault))
            for dtype in _dtypes(fault)[: 1 if quick else None]:
                yield Task(one, fault.name, _word(dtype))


def _wanted(part: str, fault: Fault) -> bool:
    """Whether it is the name of the fault's cause; if of none, a part of its own."""
    if part in CAUSES:
        return part == _cause(fault)
    return part in fault.name


@functools.cache
def _corpus(half: str) -> dict[str, Fault]:
    return {fault.name: fault for fault in faults(half)}


def _cause(fault: Fault) -> str:
    return fault.causes[0]


def _size(fault: Fault) -> int:
    given = fault.inputs(0, fault.dtypes[0])
    return sum(arg.numel() for arg in given if isinstance(arg, Tensor))


def _dtypes(fault: Fault) -> tuple[torch.dtype, ...]:
    """Those to check it in: a variant that double precision is free of, in single."""
    if _cause(fault) == "variant" and fault.dtypes == (torch.float64,):
        return (torch.float32,)
    return fault.dtypes


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# --------------------------------------------------------------- cause and region


def _causes(plan: Plan) -> tuple[list[Row], list[Target]]:
    work = functools.partial(measure, seed=plan.seed, laws=plan.laws)
    rows = _alone(work, plan, "faults")
    _print_causes(rows)
    _print_exceptions(rows)
    return rows, _cause_targets(rows)


def measure(task: Task, *, seed: int, laws: Sequence[str] | None = None) -> Row:
    """Check one fault and judge what is said of it."""
    fault = _corpus(task.half)[task.fault]
    arguments = fault.inputs(0, getattr(torch, task.dtype))
    row = {"section": "causes"} | _about(task)
    judgement, why, seconds = _asked(fault.function, arguments, seed=seed, laws=laws)
    if judgement is None:
        return row | {"verdict": "failed", "words": why, "cause": "failed"}
    found = _diagnosed(judgement)
    mine = found.get(fault.wrong_input)
    others = {n: _said(e) for n, e in found.items() if n != fault.wrong_input}
    taken = sum(int(_number(e, "diagnosis_forwards")) for e in found.values())
    return row | {
        "verdict": str(judgement.verdict),
        "codes": _codes(judgement),
        "said": _said(mine),
        "cause": _judged_cause(fault, judgement, mine),
        "others": others,
        "others_wrong": _wrong_others(fault, others),
        **_judged_region(fault, arguments, mine, seed),
        "diagnosis_forwards": taken,
        "check_forwards": _forwards(judgement) - taken,
        "words": _titles(judgement),
        "seconds": seconds,
    }


def _asked(
    function: Any, arguments: Sequence[Any], *, seed: int, **options: Any
) -> tuple[Judgement | None, str, float]:
    """(judgement or None, why there is none, seconds)."""
    seed_everything(0)
    start = time.perf_counter()
    try:
        with time_limit(_LIMIT):
            report = backproof.check(
                function, *arguments, seed=seed, contexts="none", **options
            )
    except TimeLimit:
        return None, f"over {_LIMIT:g} s", _LIMIT
    except Exception as failure:  # a checker that raises is a result
        words = f"{type(failure).__name__}: {failure}"
        return None, words, time.perf_counter() - start
    return report.subjects[0], "", time.perf_counter() - start


def _diagnosed(judgement: Judgement) -> dict[str, Evidence]:
    """The evidence that a diagnosis has given, by the name of the input."""
    found: dict[str, Evidence] = {}
    for outcome in judgement.outcomes:
        for evidence in outcome.evidence:
            if outcome.status is Status.BROKEN and "cause" in evidence.numbers:
                found.setdefault(str(evidence.numbers["input"]), evidence)
    return found


def _said(evidence: Evidence | None) -> str:
    return "" if evidence is None else str(evidence.numbers["cause"])


def _number(evidence: Evidence, name: str) -> float:
    value = evidence.numbers.get(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0


def _codes(judgement: Judgement) -> list[str]:
    """Of the laws that convict, in the order in which they do."""
    errors = [f.code for f in judgement.findings if f.severity is Severity.ERROR]
    return list(dict.fromkeys(errors))


def _forwards(judgement: Judgement) -> int:
    return sum(n for key, n in judgement.calls.items() if key.startswith("forward"))


def _titles(judgement: Judgement) -> str:
    said = [f"{f.code} {f.title}" for f in judgement.findings]
    return " ".join("; ".join(said).split())


def _judged_cause(fault: Fault, judgement: Judgement, mine: Evidence | None) -> str:
    """`right`, `wrong`, `not explained`, or `missed` where nothing was convicted."""
    if judgement.verdict not in _CONVICTS:
        return "missed"
    said = _said(mine)
    if said in fault.causes:
        return "right"
    if said not in ("", NOT_EXPLAINED):
        return "wrong"
    codes = _codes(judgement)
    by_law = any(code in codes for c in fault.causes for code in BY_LAW.get(c, ()))
    return "right" if by_law else NOT_EXPLAINED


def _wrong_others(fault: Fault, others: dict[str, str]) -> list[str]:
    """What was said of inputs beside the main one, where that is not true."""
    return [
        f"{name}: {said}"
        for name, said in others.items()
        if name not in fault.also_wrong
        or said not in ("", NOT_EXPLAINED, *fault.causes)
    ]


# ------------------------------------------------------------------------- regions


def _judged_region(
    fault: Fault, arguments: Sequence[Any], mine: Evidence | None, seed: int
) -> Row:
    """Whether the region is the wrong elements, as far as those can be told."""
    if fault.wrong is None or mine is None:
        return {"region": "-", "region_words": "", "part": None}
    place = _wrong_place(fault, arguments, seed)
    row = {"part": float(fault.wrong(*arguments).double().mean())}
    numbers = mine.numbers
    if "region" not in numbers:
        return row | {"region": "none", "region_words": ""}
    expression = str(numbers["region_expression"])
    if expression:
        mask = evaluated(expression, fault, arguments)
        right = place.is_mask(mask)
    else:
        total = place.said.numel()
        right = place.is_count(round(_number(mine, "region_share") * total))
    return row | {
        "region": "right" if right else "wrong",
        "region_words": str(numbers["region"]),
    }


@dataclass(frozen=True)
class WrongPlace:
    """The elements that are wrong: as the fault says, and beyond rounding.

    `care` leaves out those where claim and truth are both zero, where nothing can be
    seen. All in the shape of the wrong input.
    """

    said: Tensor
    seen: Tensor
    care: Tensor

    def is_mask(self, mask: Tensor) -> bool:
        """Whether the mask is one of the two wherever something can be seen."""
        return any(
            torch.equal(mask & self.care, one & self.care)
            for one in (self.said, self.seen)
        )

    def is_count(self, count: int) -> bool:
        """The same where only the number of elements is known."""
        return any(
            int((one & self.care).sum()) <= count <= int(one.sum())
            for one in (self.said, self.seen)
        )


def _wrong_place(fault: Fault, arguments: Sequence[Any], seed: int) -> WrongPlace:
    index = parameters(fault).index(fault.wrong_input)
    claim = gradients(fault.function.apply, arguments, seed)[index]
    truth = gradients(fault.reference, in_double(arguments), seed)[index]
    assert fault.wrong is not None
    said = fault.wrong(*arguments)
    truth = torch.zeros_like(arguments[index]) if truth is None else truth
    claim = torch.zeros_like(truth) if claim is None else claim
    seen = different(claim, truth, arguments[index].dtype)
    return WrongPlace(said, seen, (claim != 0) | (truth != 0))


def evaluated(expression: str, fault: Fault, arguments: Sequence[Any]) -> Tensor:
    """The mask of a region's expression, in the shape of the wrong input.

    An index such as `x[:, 3:]` marks what it takes; all else is a condition over the
    call's arguments and `output`.
    """
    names = parameters(fault)
    shape = arguments[names.index(fault.wrong_input)].shape
    if isinstance(ast.parse(expression, mode="eval").body, ast.Subscript):
        mask = torch.zeros(shape, dtype=torch.bool)
        eval(expression, {fault.wrong_input: mask}).fill_(True)
        return mask
    with torch.no_grad():
        output = fault.function.apply(*arguments)
        known = dict(zip(names, arguments, strict=True)) | _outputs(fault, output)
        found = torch.as_tensor(eval(expression, known), dtype=torch.bool)
    return found.expand(shape)


def _outputs(fault: Fault, output: Any) -> dict[str, Any]:
    """The output by the name that forward has for it, and as `output`."""
    method = method_of(fault.function.forward)
    texts = [e.text for r in method.returns for e in r.elements] if method else []
    return {"output": output} | {text: output for text in texts if text.isidentifier()}


# ----------------------------------------------------------- reporting the causes


def _print_causes(rows: list[Row]) -> None:
    for half in _HALVES:
        mine = [row for row in rows if row["half"] == half]
        if not mine:
            continue
        causes = list(dict.fromkeys(row["about"] for row in mine))
        lines = [_line(c, [r for r in mine if r["about"] == c]) for c in causes]
        print_table(f"`{half}`, by cause", _HEADER, [*lines, _line("all", mine)])
        print_table(
            f"`{half}`, by type",
            _HEADER,
            [
                _line(dtype, [r for r in mine if r["dtype"] == dtype])
                for dtype in dict.fromkeys(row["dtype"] for row in mine)
            ],
        )


_HEADER = (
    "",
    "faults",
    "convicted",
    "cause right",
    "wrong",
    "not explained",
    "region right",
    "of parts",
    "forwards of diagnosis, most",
    "of its check",
)


def _line(name: str, rows: list[Row]) -> list[object]:
    convicted = _convicted(rows)
    placed = [row for row in convicted if row["region"] != "-"]
    parts = [row for row in placed if row["part"] < 1]
    dearest = max(convicted, key=lambda r: r["diagnosis_forwards"], default=None)
    return [
        name,
        len({row["fault"] for row in rows}),
        f"{len(convicted)} of {len(rows)}",
        *(share(_count(convicted, c), len(convicted)) for c in _JUDGED),
        share(_regions(placed), len(placed)),
        share(_regions(parts), len(parts)),
        dearest["diagnosis_forwards"] if dearest else None,
        dearest["check_forwards"] if dearest else None,
    ]


_JUDGED = ("right", "wrong", NOT_EXPLAINED)


def _convicted(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["cause"] in _JUDGED]


def _count(rows: list[Row], cause: str) -> int:
    return sum(row["cause"] == cause for row in rows)


def _regions(rows: list[Row]) -> int:
    return sum(row["region"] == "right" for row in rows)


def _print_exceptions(rows: list[Row]) -> None:
    odd = [
        row
        for row in rows
        if row["cause"] != "right"
        or row["region"] in ("wrong", "none")
        or row["others_wrong"]
    ]
    order = {"wrong": 0, NOT_EXPLAINED: 1, "right": 2}
    print_table(
        "Not right",
        (
            *("half", "about", "fault", "type", "cause", "said", "region", "of it"),
            *("region said", "other inputs", "codes", "words"),
        ),
        [
            [
                *(row["half"], row["about"], row["fault"], row["dtype"]),
                *(row["cause"], row.get("said"), row.get("region")),
                row.get("part"),
                row.get("region_words", "")[:60],
                ", ".join(row.get("others_wrong", ())),
                " ".join(row.get("codes", ())),
                row["words"][:160],
            ]
            for row in sorted(odd, key=lambda r: order.get(r["cause"], 3))
        ],
    )


def _cause_targets(rows: list[Row]) -> list[Target]:
    targets = []
    for half in _HALVES:
        mine = [row for row in rows if row["half"] == half]
        convicted = _convicted(mine)
        if not mine:
            continue
        targets += [
            *_shares(half, convicted),
            Target(
                f"{half}: the check itself failed on: {listed(_failed(mine))}",
                not _failed(mine),
            ),
        ]
    return targets


def _shares(half: str, convicted: list[Row]) -> list[Target]:
    total = len(convicted)
    right, wrong = _count(convicted, "right"), _count(convicted, "wrong")
    placed = [row for row in convicted if row["region"] != "-"]
    found = _regions(placed)
    return [
        Target(
            f"{half}: cause right {share(right, total)} (at least {_RIGHT:.0%})",
            right >= _RIGHT * total,
            always=False,
        ),
        Target(
            f"{half}: cause wrong {share(wrong, total)} (at most {_WRONG:.0%})",
            wrong <= _WRONG * total,
            always=False,
        ),
        Target(
            f"{half}: region right {share(found, len(placed))} "
            f"(at least {_REGION:.0%})",
            found >= _REGION * len(placed),
            always=False,
        ),
    ]


def _failed(rows: list[Row]) -> list[str]:
    return [row["fault"] for row in rows if row["cause"] == "failed"]


# -------------------------------------------------------------- one wrong element


class _Sine(torch.autograd.Function):
    """sin x, element by element; `spoil` does what it does to one of the gradient."""

    @staticmethod
    def forward(ctx, x, spoil):
        ctx.save_for_backward(x)
        ctx.spoil = spoil
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return ctx.spoil(grad * x.cos()), None


class _WeightedNorm(torch.autograd.Function):
    """sqrt(sum(w x**2)): one output, which hangs on every element."""

    @staticmethod
    def forward(ctx, x, weight, spoil):
        norm = (weight * x * x).sum().sqrt()
        ctx.save_for_backward(x, weight, norm)
        ctx.spoil = spoil
        return norm

    @staticmethod
    def backward(ctx, grad):
        x, weight, norm = ctx.saved_tensors
        return ctx.spoil(grad * weight * x / norm), None, None


class _Chain(torch.autograd.Function):
    """A running sum of tanh x: every output hangs on all the elements before it."""

    @staticmethod
    def forward(ctx, x, spoil):
        y = x.tanh()
        ctx.save_for_backward(y)
        ctx.spoil = spoil
        return y.cumsum(0)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        later = grad.flip(0).cumsum(0).flip(0)
        return ctx.spoil(later * (1 - y * y)), None


_SINGLES: dict[str, tuple[type[torch.autograd.Function], bool]] = {
    "sine": (_Sine, False),
    "weighted norm": (_WeightedNorm, True),
    "running sum": (_Chain, False),
}
"""Name -> the Function, and whether it takes a weight."""

_SPOILT = {"zero": 0.0, "twice": 2.0, "negated": -1.0}


def _singles(plan: Plan) -> tuple[list[Row], list[Target]]:
    elements = 10**4 if plan.quick else 10**6
    tasks = [(op, seed) for op in _SINGLES for seed in range(plan.seeds)]
    work = functools.partial(measure_single, elements=elements)
    rows = list(each(work, tasks, jobs=plan.jobs, words="single elements"))
    allowed = int(2 * math.log2(elements) + 10)
    print_table(
        f"One wrong element among {elements:,} in float64, by op",
        ("op", "exact index", "forwards, most", "allowed", "seconds, most"),
        [
            [
                op,
                share(sum(row["exact"] for row in mine), len(mine)),
                max(row["diagnosis_forwards"] for row in mine),
                allowed,
                max(row["seconds"] for row in mine),
            ]
            for op in _SINGLES
            for mine in [[row for row in rows if row["op"] == op]]
        ],
    )
    lost = [row for row in rows if not row["exact"]]
    if lost:
        print_table(
            "Not found",
            ("op", "seed", "wrong at", "how", "region said", "words"),
            [
                [r["op"], r["seed"], r["at"], r["how"], r["region"], r["words"][:160]]
                for r in lost
            ],
        )
    dear = [_named(row) for row in rows if row["diagnosis_forwards"] > allowed]
    return rows, [
        Target(
            f"one wrong element found {share(len(rows) - len(lost), len(rows))}; "
            f"not: {listed(map(_named, lost))}",
            not lost,
        ),
        Target(f"over {allowed} forwards for it: {listed(dear)}", not dear),
    ]


def _named(row: Row) -> str:
    return f"{row['op']} {row['seed']}"


def measure_single(task: tuple[str, int], *, elements: int) -> Row:
    """One op with one wrong element, which the seed chooses."""
    op, seed = task
    function, weighted = _SINGLES[op]
    generator = torch.Generator().manual_seed(seed)
    at = int(torch.randint(elements, (1,), generator=generator))
    how = list(_SPOILT)[seed % len(_SPOILT)]
    x = torch.randn(elements, generator=generator, dtype=torch.float64)
    weight = torch.rand(elements, generator=generator, dtype=torch.float64) + 0.5
    arguments = [x.requires_grad_(), *([weight] if weighted else [])]
    spoil = functools.partial(_spoilt, at=at, factor=_SPOILT[how])
    judgement, why, seconds = _asked(
        function, [*arguments, spoil], seed=seed, laws=["BP101"]
    )
    row: Row = {"section": "single", "op": op, "seed": seed, "at": at, "how": how}
    row |= {"exact": False, "diagnosis_forwards": 0, "region": "", "words": why}
    if judgement is None:
        return row | {"seconds": seconds}
    row |= {"words": _titles(judgement) or str(judgement.verdict), "seconds": seconds}
    found = _diagnosed(judgement).get("x")
    if found is None:
        return row
    expression = str(found.numbers.get("region_expression", ""))
    return row | {
        "exact": _is_index(expression, at, elements),
        "diagnosis_forwards": int(_number(found, "diagnosis_forwards")),
        "region": str(found.numbers.get("region", "")),
    }


def _spoilt(gradient: Tensor, *, at: int, factor: float) -> Tensor:
    gradient[at] *= factor
    return gradient


def _is_index(expression: str, at: int, elements: int) -> bool:
    """Whether an expression is that index of x, counted from either end."""
    return expression in (f"x[{at}]", f"x[{at - elements}]")


# -------------------------------------------------------------------------- budget


def _budget(plan: Plan) -> tuple[list[Row], list[Target]]:
    work = functools.partial(measure_budget, seed=plan.seed, laws=plan.laws)
    rows = _alone(work, plan, "budgets")
    known = [row for row in rows if row["verdict"] is not None]
    over = [row["fault"] for row in known if row["taken"] > row["allowed"]]
    turned = [row["fault"] for row in known if row["verdict"] != row["without"]]
    print_table(
        "With diagnosis and without",
        ("half", "checks", "forwards, most", "of its check", "over", "verdict turned"),
        [
            [
                half,
                len(mine),
                dearest["taken"],
                dearest["own"],
                sum(row["fault"] in over for row in mine),
                sum(row["fault"] in turned for row in mine),
            ]
            for half in _HALVES
            if (mine := [row for row in known if row["half"] == half])
            for dearest in [max(mine, key=lambda row: row["taken"])]
        ],
    )
    return rows, [
        Target(
            f"diagnosis took more than max({_LEAST_FORWARDS}, the check's own) "
            f"forwards: {listed(over)}",
            not over,
        ),
        Target(f"the verdict depends on diagnosis: {listed(turned)}", not turned),
    ]


def measure_budget(task: Task, *, seed: int, laws: Sequence[str] | None = None) -> Row:
    """The same check twice, the second time without diagnosis."""
    fault = _corpus(task.half)[task.fault]
    arguments = fault.inputs(0, getattr(torch, task.dtype))
    row = {"section": "budget"} | _about(task)
    told, _, seconds = _asked(fault.function, arguments, seed=seed, laws=laws)
    with without_diagnosis():
        silent, _, less = _asked(fault.function, arguments, seed=seed, laws=laws)
    if told is None or silent is None:
        return row | {"verdict": None}
    own = _forwards(silent)
    return row | {
        "verdict": str(told.verdict),
        "without": str(silent.verdict),
        "taken": _forwards(told) - own,
        "own": own,
        "allowed": max(_LEAST_FORWARDS, own),
        "seconds": seconds,
        "seconds_without": less,
    }


@contextlib.contextmanager
def without_diagnosis() -> Iterator[None]:
    """Whoever asks for a diagnosis inside gets none."""
    from backproof.battery.diagnosing import diagnoses

    askers = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("backproof.") and vars(module).get("diagnoses") is diagnoses
    ]
    for module in askers:
        module.diagnoses = lambda *_: iter(())
    try:
        yield
    finally:
        for module in askers:
            module.diagnoses = diagnoses


_SECTIONS: dict[str, Section] = {
    "causes": _causes,
    "single": _singles,
    "budget": _budget,
}

if __name__ == "__main__":
    sys.exit(main())
