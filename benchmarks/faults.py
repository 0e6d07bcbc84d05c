"""Which injected errors a referee sees: by kind, size, precision and elements.

1. operators: every operator of PyTorch's databases that backproof.check passes, on one
   sample of 2 to 150 elements, its backward corrupted in fifteen ways; in float32 and
   bfloat16 inside a wrapper that refuses any other precision, so that nothing can be
   learnt from a float64 run. Operators that cast inside to a coarser type are counted
   apart. An error that leaves the gradient as it was does not count.
2. elements: one element wrong among up to 10^6.
3. named: thirty ordinary operators in bfloat16 at 1,000 elements, all scaled.
"""

from __future__ import annotations

import functools
import sys
import zlib
from collections.abc import Iterable, Sequence

import torch
from injection import effect, element, faults, inject, precisions, scaled
from operators import Sample, casts_inside, names, outputs, samples
from opinfo import EXPLAINED
from ordinary import NAMED, OPERATORS
from referees import gradcheck, ours
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

_SECTIONS = ("operators", "elements", "named")
_DELTAS = {
    "float64": (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7),
    "float32": (1e-1, 1e-2, 1e-3, 1e-4, 1e-5),
    "bfloat16": (1e-1, 3e-2, 1e-2),
}
_MUST_SEE = {"float64": 1e-6, "float32": 1e-3, "bfloat16": 1e-1}  # dense, in the mass
_REAL = {"float64": 1e-9, "float32": 1e-4, "bfloat16": 3e-2}  # share of the gradient
_ELEMENTS = (2, 150)

_SINGLE = (
    # dtype, elements, factor, elementwise operators only, in the target
    ("float64", 10**6, 0.0, False, True),
    ("float64", 10**5, 1.01, False, True),
    ("float32", 10**6, 0.0, True, True),
    ("float32", 10**4, 0.0, True, False),
    ("float32", 10**3, 1.01, True, False),
    ("bfloat16", 10**2, 0.0, True, False),
)
_SINGLE_OPERATORS = ("gelu", "sigmoid", "sin", "square", "exp", "softplus")
_SINGLE_WIDE = (*_SINGLE_OPERATORS, "layer_norm", "softmax")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a target is missed."""
    options = parser(__doc__)
    options.add_argument(
        "--section", choices=_SECTIONS, action="append", help="default: all"
    )
    options.add_argument(
        "--dtype", choices=list(_DELTAS), action="append", help="default: all"
    )
    options.add_argument(
        "--seeds", type=int, default=40, help="draws a cell, sections 2 and 3"
    )
    options.add_argument(
        "--every", type=int, help="section 1: every n-th operator (default: all)"
    )
    options.add_argument(
        "--each",
        action="store_true",
        help="in section 2 that many draws of every operator, not of all together",
    )
    options.add_argument(
        "--skip-gradcheck", action="store_true", help="backproof.check alone"
    )
    given = options.parse_args(arguments)
    prepare()
    dtypes = given.dtype or list(_DELTAS)
    sections = given.section or list(_SECTIONS)
    rows: list[Row] = []
    targets: list[Target] = []
    if "operators" in sections:
        found = _operators(given, dtypes)
        _print_operators(found, dtypes)
        targets += _operator_targets(found, dtypes)
        rows += found
    if "elements" in sections:
        found = _elements(given, dtypes)
        targets += _print_elements(found)
        rows += found
    if "named" in sections and "bfloat16" in dtypes:
        found = _named(given)
        targets += _print_named(found)
        rows += found
    write_rows(given.out, rows)
    return judge_targets(targets, quick=given.quick)


# ------------------------------------------------------------- 1. PyTorch's operators


def _operators(given, dtypes: Sequence[str]) -> list[Row]:
    stride = given.every or (32 if given.quick else 1)
    tasks = [
        (name, dtype) for dtype in dtypes for name in names(DTYPES[dtype])[3::stride]
    ]
    work = functools.partial(
        measure_operator, seed=given.seed, beside=not given.skip_gradcheck
    )
    found = each(work, tasks, jobs=given.jobs, words="operators")
    return [row for rows in found for row in rows]


def measure_operator(task: tuple[str, str], *, seed: int, beside: bool) -> list[Row]:
    """Every fault on the first healthy sample of an operator, if it has one."""
    name, dtype = task
    sample = _healthy(name, dtype, seed)
    if sample is None:
        return []
    function, inputs = sample.function, sample.inputs
    only = None if dtype == "float64" else precisions(inputs)
    casts = casts_inside(sample)
    rows = []
    for fault in faults(inputs, _DELTAS[dtype], zlib.crc32(name.encode())):
        size = effect(function, inputs, fault.corrupt)
        if fault.name != "none" and size < (
            _REAL[dtype] if fault.delta is None else 1e-14
        ):
            continue
        injected = inject(function, fault.corrupt, only)
        row: Row = {
            "section": "operators",
            "operator": name,
            "index": sample.index,
            "dtype": dtype,
            "elements": sample.num_elements,
            "casts": casts,
            "fault": fault.name,
            "delta": fault.delta,
            "effect": size,
            **ours(injected, inputs, seed=seed).row("ours"),
        }
        for mode in ("slow", "fast") if beside and dtype == "float64" else ():
            row |= gradcheck(
                injected,
                inputs,
                fast=mode == "fast",
                limit=20,
                nondeterminism=sample.nondeterminism,
            ).row(mode)
        rows.append(row)
    return rows


def _healthy(name: str, dtype: str, seed: int) -> Sample | None:
    if name in EXPLAINED and dtype in EXPLAINED[name].dtypes:
        return None  # its gradient is known to differ, whether a sample shows it or not
    for sample in samples(name, DTYPES[dtype], most=5):
        if not _ELEMENTS[0] <= sample.num_elements <= _ELEMENTS[1]:
            continue
        found = outputs(sample.function(*sample.inputs))
        if not all(t.requires_grad for t in found if t.is_floating_point()):
            continue
        if ours(sample.function, sample.inputs, seed=seed).verdict == "pass":
            return sample
    return None


def _print_operators(rows: list[Row], dtypes: Sequence[str]) -> None:
    columns = [
        (dtype, referee)
        for dtype in dtypes
        for referee in ("ours", "slow", "fast")
        if any(r["dtype"] == dtype and f"{referee}_verdict" in r for r in rows)
    ]
    for casts in (False, True):
        mine = [row for row in rows if row["casts"] is casts]
        if not mine:
            continue
        num_operators = len({row["operator"] for row in mine})
        which = "that cast inside to a coarser type" if casts else "of PyTorch"
        print_table(
            f"Injected errors found, {num_operators} operators {which}",
            ["fault", *(_heading(*column) for column in columns)],
            [
                [fault, *(_found(mine, fault, *column) for column in columns)]
                for fault in _kinds(mine)
            ],
        )
    _print_missed(rows)
    _print_promises(rows)


def _kinds(rows: list[Row]) -> list[str]:
    """The faults in the table's order: none, scales from large to small, others."""
    deltas = {row["fault"]: row["delta"] or 0.0 for row in rows}
    return sorted(
        deltas, key=lambda fault: (fault != "none", not deltas[fault], -deltas[fault])
    )


def _heading(dtype: str, referee: str) -> str:
    return dtype if referee == "ours" else f"gradcheck {referee}"


def _found(rows: list[Row], fault: str, dtype: str, referee: str) -> str:
    mine = [row for row in rows if row["fault"] == fault and row["dtype"] == dtype]
    return share(sum(_seen(row, referee) for row in mine), len(mine))


def _seen(row: Row, referee: str = "ours") -> bool:
    return row[f"{referee}_verdict"] in ("wrong", "crashed", "surrogate", "alarm")


def _print_missed(rows: list[Row]) -> None:
    """The misses that a target or a user would ask about, with our own resolution."""
    missed = [
        row
        for row in rows
        if not _seen(row)
        and row["fault"] != "none"
        and (row["delta"] is None or row["delta"] >= _MUST_SEE[row["dtype"]] * 0.99)
    ]
    accused = [row for row in rows if _seen(row) and row["fault"] == "none"]
    print_table(
        "Missed by us (dense errors from the size that must be seen), and false alarms",
        ("dtype", "fault", "operator", "n", "verdict", "error", "resolution", "why"),
        [
            [
                row["dtype"],
                row["fault"],
                row["operator"] + (" (casts)" if row["casts"] else ""),
                row["elements"],
                row["ours_verdict"],
                f"{row['effect']:.0e}",
                f"{row['ours_resolution']:.0e}",
                row["ours_words"][:70],
            ]
            for row in accused + missed
        ],
    )


def _print_promises(rows: list[Row]) -> None:
    """A pass states the smallest dense error that it would have seen: is that true?"""
    dense = [r for r in rows if r["delta"] and not r["casts"]]
    kept = [r for r in dense if _seen(r)]
    broken = [
        r
        for r in dense
        if r["ours_verdict"] == "pass" and r["ours_resolution"] < 0.5 * r["effect"]
    ]
    print(
        f"\nOf {len(dense)} scaled gradients {len(kept)} were convicted; "
        f"{len(broken)} passed although the stated resolution was below half the error"
        + "".join(f"\n  {r['dtype']} {r['operator']} {r['fault']}" for r in broken[:20])
    )


def _operator_targets(rows: list[Row], dtypes: Sequence[str]) -> list[Target]:
    met = []
    for dtype in dtypes:
        least = 0.85 if dtype == "bfloat16" else 0.97
        for delta in _DELTAS[dtype]:
            if delta < _MUST_SEE[dtype] * 0.99:
                continue
            mine = [
                row
                for row in rows
                if row["dtype"] == dtype and row["delta"] == delta and not row["casts"]
            ]
            seen = sum(map(_seen, mine))
            words = f"{dtype}: dense {delta:g} seen in {share(seen, len(mine))}"
            met.append(
                Target(
                    f"{words} (at least {least:.0%})",
                    seen >= least * len(mine),
                    always=False,
                )
            )
        healthy = [r for r in rows if r["dtype"] == dtype and r["fault"] == "none"]
        accused = sum(map(_seen, healthy))
        met.append(Target(f"{dtype}: healthy wrappers accused {accused}", accused == 0))
    return met


# ------------------------------------------------------------- 2. one wrong element


def _elements(given, dtypes: Sequence[str]) -> list[Row]:
    tasks = []
    for dtype, n, factor, elementwise, _ in _SINGLE:
        if dtype not in dtypes:
            continue
        chosen = _SINGLE_OPERATORS if elementwise else _SINGLE_WIDE
        draws = min(given.seeds, 2 if n > 10**5 else 4) if given.quick else given.seeds
        draws *= len(chosen) if given.each else 1
        tasks += [
            (chosen[draw % len(chosen)], dtype, n, factor, draw)
            for draw in range(draws)
        ]
    work = functools.partial(measure_element, beside=not given.skip_gradcheck)
    return list(each(work, tasks, jobs=given.jobs, words="single elements"))


def measure_element(task: tuple[str, str, int, float, int], *, beside: bool) -> Row:
    """One element of the first input's gradient times `factor`, at a random place."""
    name, dtype, n, factor, draw = task
    operator = NAMED[name]
    inputs = operator.inputs(n, DTYPES[dtype], seed=1000 + draw)
    random = torch.Generator().manual_seed(draw)
    place = int(torch.randint(inputs[0].numel(), (1,), generator=random))
    only = None if dtype == "float64" else [DTYPES[dtype]]
    injected = inject(operator.function, element(place, factor), only)
    row: Row = {
        "section": "elements",
        "operator": name,
        "dtype": dtype,
        "elements": n,
        "factor": factor,
        "draw": draw,
        "at": float(inputs[0].detach().view(-1)[place]),
        **ours(injected, inputs, seed=draw, limit=120).row("ours"),
    }
    if beside and dtype == "float64" and draw < len(_SINGLE_WIDE):
        row |= gradcheck(injected, inputs, fast=True).row("fast")
    return row


def _print_elements(rows: list[Row]) -> list[Target]:
    lines, targets = [], []
    for dtype, n, factor, _, required in _SINGLE:
        mine = [
            row
            for row in rows
            if (row["dtype"], row["elements"], row["factor"]) == (dtype, n, factor)
        ]
        if not mine:
            continue
        seen = [row for row in mine if _seen(row)]
        fast = [row for row in mine if "fast_verdict" in row]
        words = "zeroed" if factor == 0 else f"{abs(factor - 1):.0%} off"
        lines.append(
            [
                dtype,
                f"{n:,}",
                words,
                share(len(seen), len(mine)),
                share(sum(_seen(row, "fast") for row in fast), len(fast)),
                _operators_of(mine),
                _operators_of([row for row in mine if not _seen(row)]),
                f"{sum(row['ours_seconds'] for row in mine) / len(mine):.2f}",
            ]
        )
        if required:
            text = f"{dtype}: one element {words} among {n:,} found in "
            text += f"{share(len(seen), len(mine))} (at least 95 %)"
            targets.append(Target(text, len(seen) >= 0.95 * len(mine), always=False))
    print_table(
        "One wrong element",
        (
            "dtype",
            "elements",
            "error",
            "found by us",
            "gradcheck fast",
            "operators",
            "missed in",
            "CPU s each",
        ),
        lines,
    )
    return targets


def _operators_of(rows: Iterable[Row]) -> str:
    return ", ".join(dict.fromkeys(row["operator"] for row in rows)) or "-"


# ------------------------------------------------------------- 3. named operators


def _named(given) -> list[Row]:
    chosen = OPERATORS[::5] if given.quick else OPERATORS
    seeds = min(given.seeds, 2) if given.quick else given.seeds
    tasks = [
        (operator.name, delta, seed)
        for operator in chosen
        for delta in (0.0, 3e-2, 1e-1)
        for seed in range(seeds)
    ]
    return list(each(measure_named, tasks, jobs=given.jobs, words="named operators"))


def measure_named(task: tuple[str, float, int]) -> Row:
    """The whole gradient times 1 + delta, in bfloat16, about 1,000 elements."""
    name, delta, seed = task
    operator = NAMED[name]
    inputs = operator.inputs(1000, torch.bfloat16, seed)
    injected = inject(operator.function, scaled(delta), [torch.bfloat16])
    return {
        "section": "named",
        "operator": name,
        "dtype": "bfloat16",
        "elements": sum(t.numel() for t in inputs),
        "delta": delta,
        "effect": effect(operator.function, inputs, scaled(delta)),
        "draw": seed,
        **ours(injected, inputs, seed=seed).row("ours"),
    }


def _print_named(rows: list[Row]) -> list[Target]:
    deltas = list(dict.fromkeys(row["delta"] for row in rows))
    chosen = list(dict.fromkeys(row["operator"] for row in rows))
    lines, weak = [], []
    for name in chosen:
        mine = [row for row in rows if row["operator"] == name]
        cells = [
            (sum(map(_seen, here)), len(here))
            for here in ([r for r in mine if r["delta"] == d] for d in deltas)
        ]
        resolution = sorted(row["ours_resolution"] for row in mine)[len(mine) // 2]
        lines.append([name, *(share(*cell) for cell in cells), f"{resolution:.1e}"])
        if cells[1][0] < 0.95 * cells[1][1] or cells[2][0] < 0.95 * cells[2][1]:
            weak.append(name)
    print_table(
        "bfloat16, 1,000 elements: whole gradient scaled, accused",
        ("operator", "healthy", *(f"x (1 + {d:g})" for d in deltas[1:]), "resolution"),
        lines,
    )
    accused = sum(_seen(row) for row in rows if row["delta"] == 0)
    return [
        Target(
            f"bfloat16: 3e-2 found at 1,000 elements in {len(chosen) - len(weak)} of "
            f"{len(chosen)} named operators; not in: {listed(weak)}",
            not weak,
            always=False,
        ),
        Target(f"bfloat16: healthy named operators accused {accused}", accused == 0),
    ]


if __name__ == "__main__":
    sys.exit(main())
