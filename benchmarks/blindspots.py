"""What gradcheck cannot see at its defaults, mode by mode, beside backproof.check.

Its absolute tolerance grows with the tensor in fast mode, its cotangents are single
ones (slow) or never negative (fast), and two outputs never get a cotangent together.
Every row is a wrong backward; the last column is its right twin.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from injection import element, inject
from referees import gradcheck, ours
from running import (
    Target,
    judge_targets,
    listed,
    parser,
    prepare,
    print_table,
    write_rows,
)
from torch import Tensor

_FEASIBLE = 4096  # elements, for slow gradcheck


@dataclass(frozen=True)
class BlindSpot:
    """A wrong function, its right twin, and the modes of gradcheck that pass it."""

    name: str
    wrong: Callable[..., object]
    right: Callable[..., object]
    elements: int
    blind: tuple[str, ...]


class Sine(torch.autograd.Function):
    """sin x, whose backward puts the cotangent through `change` first."""

    @staticmethod
    def forward(ctx, x, change):
        ctx.save_for_backward(x)
        ctx.change = change
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return ctx.change(g) * x.cos(), None


class SineCosine(torch.autograd.Function):
    """sin x and cos x, whose backward adds `cross` times the product of cotangents."""

    @staticmethod
    def forward(ctx, x, cross):
        ctx.save_for_backward(x)
        ctx.cross = cross
        return x.sin(), x.cos()

    @staticmethod
    def backward(ctx, g1, g2):
        (x,) = ctx.saved_tensors
        return g1 * x.cos() - g2 * x.sin() + ctx.cross * g1 * g2, None


def sine(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A sine whose cotangent is changed on the way."""
    return lambda x: Sine.apply(x, change)


_RIGHT = sine(lambda g: g)

BLIND_SPOTS = [
    BlindSpot("backward is all zero", sine(torch.zeros_like), _RIGHT, 10**5, ("fast",)),
    BlindSpot("backward is negated", sine(torch.neg), _RIGHT, 2 * 10**5, ("fast",)),
    BlindSpot("abs(g)", sine(torch.abs), _RIGHT, 12, ("slow", "fast")),
    BlindSpot(
        "clamp(g, 0, 1)", sine(lambda g: g.clamp(0, 1)), _RIGHT, 12, ("slow", "fast")
    ),
    BlindSpot(
        "+ g1 * g2, two outputs",
        lambda x: SineCosine.apply(x, 1.0),
        lambda x: SineCosine.apply(x, 0.0),
        12,
        ("slow", "fast"),
    ),
    BlindSpot("sign(g)", sine(torch.sign), _RIGHT, 12, ("slow",)),
    BlindSpot("g ** 3", sine(lambda g: g**3), _RIGHT, 12, ("slow",)),
    BlindSpot(
        "one entry of twelve 0.1 % off",
        inject(_RIGHT, element(5, 1.001)),
        _RIGHT,
        12,
        ("slow", "fast"),
    ),
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and end 1 where a target is missed."""
    given = parser(__doc__, jobs=False).parse_args(arguments)
    prepare()
    rows = []
    for spot in BLIND_SPOTS:
        inputs = _inputs(spot.elements)
        row = {
            "fault": spot.name,
            "elements": spot.elements,
            "blind": spot.blind,
            **ours(spot.wrong, inputs, seed=given.seed).row("ours"),
            **ours(spot.right, inputs, seed=given.seed).row("twin"),
            **gradcheck(spot.wrong, inputs, fast=True).row("fast"),
        }
        if spot.elements <= _FEASIBLE:
            row |= gradcheck(spot.wrong, inputs, fast=False).row("slow")
        rows.append(row)
    print_table(
        "Wrong backwards that gradcheck passes at its defaults",
        (
            "backward",
            "elements",
            "blind mode",
            "gradcheck slow",
            "gradcheck fast",
            "backproof",
            "code",
            "right twin",
        ),
        [
            [
                row["fault"],
                f"{row['elements']:,}",
                " and ".join(row["blind"]),
                row.get("slow_verdict", "infeasible"),
                row["fast_verdict"],
                row["ours_verdict"],
                " ".join(dict.fromkeys(row["ours_codes"])),
                row["twin_verdict"],
            ]
            for row in rows
        ],
    )
    write_rows(given.out, rows)
    missed = [row["fault"] for row in rows if row["ours_verdict"] != "wrong"]
    seen = [
        f"{row['fault']} ({mode})"
        for row in rows
        for mode in row["blind"]
        if row[f"{mode}_verdict"] != "pass"
    ]
    accused = [row["fault"] for row in rows if row["twin_verdict"] != "pass"]
    targets = [
        Target(f"all convicted by us, but: {listed(missed)}", not missed),
        Target(f"right twins pass, but: {listed(accused)}", not accused),
        Target(f"each mode is blind as named, but: {listed(seen)}", not seen),
    ]
    return judge_targets(targets, quick=given.quick)


def _inputs(n: int) -> tuple[Tensor, ...]:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(n, dtype=torch.float64, generator=random)
    return (x.requires_grad_(),)


if __name__ == "__main__":
    sys.exit(main())
