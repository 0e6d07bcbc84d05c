"""Correct but awkward functions, which a checker is tempted to accuse.

Twenty that trap existing checkers (huge offsets, tiny scales, kinks, ties, noisy and
float32-only kernels) and ten of our own, in four precisions; each as it is, and with
its gradient scaled by 1.1, which must be convicted wherever the stated resolution is
finer than that. A cell is left out where the values do not fit the type.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from injection import inject, scaled
from operators import outputs
from referees import CONVICTS, gradcheck, ours
from running import (
    DTYPES,
    Row,
    Target,
    judge_targets,
    listed,
    parser,
    prepare,
    print_table,
    seed_everything,
    write_rows,
)
from torch import Tensor

_FINE = ("float64", "float32")
_SIXTEEN = ("float16", "bfloat16")


@dataclass(frozen=True)
class Awkward:
    """A correct function and its inputs, drawn in float64 from a generator.

    `counts_as`: how many of the twenty this one is (a sine in four precisions is four).
    """

    name: str
    function: Callable[..., Any]
    draw: Callable[[torch.Generator], Tensor]
    dtypes: Sequence[str] = tuple(DTYPES)
    expect_backward: Callable[..., Any] | None = None
    counts_as: int = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a target is missed."""
    options = parser(__doc__, jobs=False)
    options.add_argument("--only", action="append", help="functions with this in them")
    options.add_argument(
        "--seeds", type=int, help="of inputs and check (default: 5, quick: 1)"
    )
    given = options.parse_args(arguments)
    prepare()
    seeds = given.seeds or (1 if given.quick else 5)
    chosen = [
        (group, awkward)
        for group, members in (("known", KNOWN), ("own", OWN))
        for awkward in members
        if not given.only or any(part in awkward.name for part in given.only)
    ]
    rows = [
        row
        for group, awkward in chosen
        for dtype in (_FINE if given.quick else DTYPES)
        for seed in range(given.seed, given.seed + seeds)
        if (row := measure(group, awkward, dtype, seed)) is not None
    ]
    _print_rows(rows, [awkward for _, awkward in chosen])
    write_rows(given.out, rows)
    return judge_targets(_targets(rows), quick=given.quick)


def measure(group: str, awkward: Awkward, dtype: str, seed: int) -> Row | None:
    """One function in one type, healthy and scaled; None where it does not fit."""
    if dtype not in awkward.dtypes:
        return None
    exact = awkward.draw(torch.Generator().manual_seed(seed))
    x = exact.to(DTYPES[dtype]).requires_grad_()
    if not _fits(awkward, exact, DTYPES[dtype]):
        return None
    declared = awkward.expect_backward
    options = {} if declared is None else {"expect_backward": declared}
    wrong = inject(awkward.function, scaled(0.1))
    row: Row = {
        "group": group,
        "function": awkward.name,
        "dtype": dtype,
        "seed": seed,
        **ours(awkward.function, [x], seed=seed, **options).row("healthy"),
        **ours(wrong, [x], seed=seed, **options).row("scaled"),
    }
    if dtype == "float64":
        row |= gradcheck(awkward.function, [x], fast=False, limit=20).row("slow")
        row |= gradcheck(awkward.function, [x], fast=True, limit=20).row("fast")
    return row


def _fits(awkward: Awkward, exact: Tensor, dtype: torch.dtype) -> bool:
    """Whether inputs, outputs and gradient stay in the normal range of the type."""
    x = exact.clone().requires_grad_()
    seed_everything(0)
    found = [t for t in outputs(awkward.function(x)) if t.requires_grad]
    values = [exact, *(t.detach() for t in found)]
    values += torch.autograd.grad([t.sum() for t in found], [x])
    limits = torch.finfo(dtype)
    sizes = torch.cat([v.double().abs().reshape(-1) for v in values])
    sizes = sizes[sizes > 0]
    return bool((sizes <= limits.max).all() and (sizes >= limits.tiny).all())


def _print_rows(rows: list[Row], chosen: Sequence[Awkward]) -> None:
    dtypes = list(dict.fromkeys(row["dtype"] for row in rows))
    print_table(
        f"{sum(awkward.counts_as for awkward in chosen)} correct but awkward "
        "functions: verdict as it is / with its gradient scaled by 1.1",
        ("function", *dtypes, "gradcheck slow, fast (float64)"),
        [
            [
                awkward.name,
                *(_cell([r for r in mine if r["dtype"] == dtype]) for dtype in dtypes),
                _gradcheck([r for r in mine if r["dtype"] == "float64"]),
            ]
            for awkward in chosen
            for mine in [[r for r in rows if r["function"] == awkward.name]]
        ],
    )
    accused = [row for row in rows if row["healthy_verdict"] != "pass"]
    missed = [row for row in rows if _missed(row)]
    print_table(
        "Not passed, or missed though the resolution allows",
        ("function", "dtype", "seed", "as it is", "scaled", "resolution", "words"),
        [
            [
                row["function"],
                row["dtype"],
                row["seed"],
                row["healthy_verdict"],
                row["scaled_verdict"],
                f"{row['healthy_resolution']:.0e}",
                row["healthy_words"][:100],
            ]
            for row in rows
            if row in accused or row in missed
        ],
    )


def _cell(mine: list[Row]) -> str:
    if not mine:
        return "-"
    mark = "  MISSED" if any(map(_missed, mine)) else ""
    return f"{_tally(mine, 'healthy')} / {_tally(mine, 'scaled')}{mark}"


def _gradcheck(mine: list[Row]) -> str:
    return f"{_tally(mine, 'slow')}, {_tally(mine, 'fast')}" if mine else "-"


def _tally(mine: list[Row], which: str) -> str:
    """The verdict, or each with its count where the seeds disagree."""
    counts = Counter(row[f"{which}_verdict"] for row in mine)
    if len(counts) == 1:
        return next(iter(counts))
    return " ".join(f"{verdict} {count}" for verdict, count in counts.items())


def _missed(row: Row) -> bool:
    """A scaled gradient that passed with a resolution that promised to see it."""
    return row["scaled_verdict"] == "pass" and row["scaled_resolution"] < 0.09


def _targets(rows: list[Row]) -> list[Target]:
    targets = []
    for words, dtypes in (("float64 and float32", _FINE), ("16 bits", _SIXTEEN)):
        mine = [row for row in rows if row["dtype"] in dtypes]
        if not mine:
            continue
        accused = [_label(r) for r in mine if r["healthy_verdict"] in CONVICTS]
        targets.append(Target(f"{words}: called wrong: {listed(accused)}", not accused))
        failed = [
            _label(row)
            for row in mine
            if {row["healthy_verdict"], row["scaled_verdict"]}
            & {"raised", "timeout", "refused"}
        ]
        targets.append(
            Target(f"{words}: check failed on: {listed(failed)}", not failed)
        )
        missed = [_label(row) for row in mine if _missed(row)]
        targets.append(
            Target(
                f"{words}: scaled by 1.1 and passed though the resolution allows: "
                f"{listed(missed)}",
                not missed,
            )
        )
    for group, most in (("known", 4), ("own", 4)):
        undecided = [
            _label(row)
            for row in rows
            if row["dtype"] in _FINE
            and row["group"] == group
            and row["healthy_verdict"] == "inconclusive"
        ]
        undecided = list(dict.fromkeys(undecided))
        targets.append(
            Target(
                f"float64 and float32, {group}: inconclusive {len(undecided)} "
                f"(at most {most}): {listed(undecided)}",
                len(undecided) <= most,
            )
        )
    return targets


def _label(row: Row) -> str:
    return f"{row['function']} ({row['dtype']})"


# ------------------------------------------------------------- the functions

_N = 64


def around(centre: float, spread: float = 1.0, n: int = _N):
    """Normal with this mean and standard deviation."""
    return lambda random: (
        centre + spread * torch.randn(n, generator=random, dtype=torch.float64)
    )


def between(low: float, high: float, n: int = _N):
    """Uniform in an interval."""
    return lambda random: (
        low + (high - low) * torch.rand(n, generator=random, dtype=torch.float64)
    )


def _with_exact_zeros(random: torch.Generator) -> Tensor:
    x = torch.randn(_N, generator=random, dtype=torch.float64)
    x[::8] = 0.0
    return x


def _tied(random: torch.Generator) -> Tensor:
    drawn = torch.randint(0, 4, (8, 8), generator=random)
    return drawn.to(torch.float64)


class NoisySine(torch.autograd.Function):
    """sin x, whose backward is off by up to one ulp, differently at each call."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        gradient = g * x.cos()
        ulp = torch.randint(-1, 2, x.shape).to(x.dtype)
        return gradient * (1 + ulp * torch.finfo(x.dtype).eps)


class StraightThrough(torch.autograd.Function):
    """round x with the gradient of x."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


KNOWN = [
    Awkward("sin x", torch.sin, around(0), counts_as=4),
    Awkward(
        "sin x, float32 kernel behind float64",
        lambda x: x.float().sin().double(),
        around(0),
        ("float64",),
    ),
    Awkward("x^3 near 1e4", lambda x: x**3, around(1e4)),
    Awkward("x^3 near 1e-8", lambda x: x**3, around(1e-8, 1e-9)),
    Awkward("sin x near 1e8", torch.sin, around(1e8)),
    Awkward("sin x near 1e10", torch.sin, around(1e10)),
    Awkward("log x near 1e-6", torch.log, between(0.5e-6, 2e-6)),
    Awkward("exp x near 20", torch.exp, around(20)),
    Awkward("sin 1000 x", lambda x: torch.sin(1000 * x), around(0)),
    Awkward("tanh 1e5 x near 0", lambda x: torch.tanh(1e5 * x), around(0, 1e-5)),
    Awkward("1e9 + sin x", lambda x: 1e9 + torch.sin(x), around(0)),
    Awkward("relu with exact zeros", torch.relu, _with_exact_zeros),
    Awkward("relu, 4,096 elements", torch.relu, around(0, n=4096)),
    Awkward("relu near 1e-6", torch.relu, around(0, 1e-6)),
    Awkward("max over ties", lambda x: x.amax(1), _tied),
    Awkward("backward off by an ulp", NoisySine.apply, around(0)),
    Awkward(
        "straight-through round, declared",
        StraightThrough.apply,
        around(0, 3.0),
        expect_backward=lambda g, x: (g,),
    ),
]
"""The twenty of which 12 fail gradcheck slow, 10 fast (a sine counts in four types)."""


def _knots(random: torch.Generator) -> Tensor:
    steps = 0.5 + torch.rand(9, generator=random, dtype=torch.float64)
    return torch.cumsum(steps, 0) / 12


def _interpolate(knots: Tensor) -> Tensor:
    """Where 0.51 lies between each pair of neighbouring knots."""
    return (0.51 - knots[:-1]) / (knots[1:] - knots[:-1])


class NewtonRoot(torch.autograd.Function):
    """sqrt x by iteration until it stalls, its backward in closed form."""

    @staticmethod
    def forward(ctx, x):
        root = torch.ones_like(x)
        for _ in range(60):
            following = 0.5 * (root + x / root)
            if bool(
                ((following - root).abs() <= torch.finfo(x.dtype).eps * root).all()
            ):
                break
            root = following
        ctx.save_for_backward(root)
        return root

    @staticmethod
    def backward(ctx, g):
        (root,) = ctx.saved_tensors
        return g / (2 * root)


def _solve(x: Tensor) -> Tensor:
    """A x' = x with A a Hilbert matrix of condition 5e5, in float32 at least."""
    inner = x if x.dtype == torch.float64 else x.float()
    index = torch.arange(5, dtype=inner.dtype)
    hilbert = 1 / (index[:, None] + index[None, :] + 1)
    return torch.linalg.solve(hilbert, inner.reshape(5, -1)).to(x.dtype)


def _matrix(seed: int, n: int, like: Tensor) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(n, n, generator=random, dtype=torch.float64).to(like.dtype)


OWN = [
    Awkward("interpolation between sorted knots", _interpolate, _knots),
    Awkward("asin next to its ends", torch.asin, between(0.95, 0.999)),
    Awkward(
        "log x over sixteen decades",
        torch.log,
        lambda random: 10 ** between(-8, 8)(random),
    ),
    Awkward(
        "sigmoid in bfloat16 inside",
        lambda x: torch.sigmoid(x.bfloat16()).to(x.dtype),
        around(0, n=500),
        _FINE,
    ),
    Awkward("((x + 1000) - 1000)^2", lambda x: ((x + 1000) - 1000) ** 2, around(0)),
    Awkward(
        "softmax in float32 inside",
        lambda x: torch.softmax(x.reshape(8, 8).float(), 1).to(x.dtype),
        around(0),
    ),
    Awkward(
        "relu of a matrix product",
        lambda x: torch.relu(x.reshape(8, 8) @ _matrix(0, 8, x)),
        around(0),
    ),
    Awkward("square root by iteration", NewtonRoot.apply, between(0.2, 3)),
    Awkward("solve with a Hilbert matrix", _solve, around(0, n=20)),
    Awkward(
        "sorted ties into tanh",
        lambda x: torch.tanh(x.sort(1).values @ _matrix(1, 8, x)),
        _tied,
    ),
]


if __name__ == "__main__":
    sys.exit(main())
