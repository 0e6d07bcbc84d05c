"""The point that a trial starts from: outputs, a first gradient, what is held fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.probe import (
    Precision,
    coarsest,
    direction,
    is_finite,
    move,
    signs,
    stream,
    typical,
)
from backproof.trial import Graph, Refused, Trial
from backproof.trial.vectors import balanced

_TRIED = 8  # elements tried one by one beside outputs that are not finite
_WIDEST_FLOAT16 = 8.0  # products with a cotangent must stay within 65504 and above 6e-5
_UNDERFLOW_SHIFT = 2.0**-8  # tried once where float16 gradients overflow


@dataclass
class Base:
    """Everything known at the case's own inputs.

    Attributes:
        graph: forward's record, to pull cotangents from.
        precision: of the coarsest type among differentiable inputs and outputs.
        values: y(x), zero where it is not finite, float64 (num_outputs,).
        finite: where y(x) is finite.
        cotangent: the first one: each output weighs the same against its own size.
        gradient: backward of it, as returned; None where there was none.
        frozen: elements of each input with a gradient that is not finite, or None.
        shift: factor on all cotangents, below 1 where float16 would overflow.
        floor: the typical size in the tensor that each output belongs to: what an
            output much smaller than its neighbours was probably computed from.
        groups: the tensor that each output belongs to, as slices.
        most: the trial's own limit to the weights of a cotangent.
    """

    graph: Graph
    precision: Precision
    values: Tensor
    finite: Tensor
    cotangent: Tensor
    gradient: list[Tensor | None]
    frozen: list[Tensor | None]
    shift: float
    floor: Tensor
    groups: tuple[slice, ...]
    most: float

    @property
    def widest(self) -> float:
        """How much more than the typical output one may weigh in a cotangent."""
        return _WIDEST_FLOAT16 if self.float16 else self.most

    @property
    def float16(self) -> bool:
        """Whether an output is float16, whose range is narrow."""
        return any(t.dtype == torch.float16 for t in self.graph.tensors)


def begin(trial: Trial, seed: int) -> Base:
    """One recorded forward and one backward.

    Raises:
        BadInput: forward raises, or no output can be differentiated.
        BackwardRaised: backward raises.
    """
    graph = trial.record()
    precision = coarsest(trial.dtypes)
    finite = torch.ones_like(graph.values, dtype=torch.bool)
    values = graph.values.clone()
    if not is_finite(values):
        finite = torch.isfinite(values)
        values.masked_fill_(~finite, 0.0)
    size = values.abs()
    floor, groups = torch.empty_like(size), tuple(o.part for o in trial.outputs)
    for part in groups:
        floor[part] = typical(size[part]) if bool(size[part].any()) else 0.0
    base = Base(
        graph, precision, values, finite, size, [], [], 1.0, floor, groups, trial.widest
    )
    generator = stream(seed, 100)
    drawn = signs(generator, size.numel())
    weights = size.clamp(min=0.1 * typical(size))
    cotangent = balanced(weights, finite, drawn, generator, widest=base.widest)
    cotangent = trial.represent(cotangent)
    gradient = trial.pull(graph, cotangent)
    if base.float16 and not all(_is_finite(g) for g in gradient):
        base.shift = _UNDERFLOW_SHIFT
        cotangent = trial.represent(cotangent * base.shift)
        gradient = trial.pull(graph, cotangent)
    base.cotangent, base.gradient = cotangent, gradient
    base.frozen = [
        None if g is None or _is_finite(g) else ~torch.isfinite(g) for g in gradient
    ]
    return base


def clean(gradient: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The gradient with zero where it is not finite; its elements there stay fixed."""
    return [
        g if g is None or _is_finite(g) else torch.nan_to_num(g, 0.0, 0.0, 0.0)
        for g in gradient
    ]


def forward_is_finite_beside(trial: Trial, base: Base) -> bool:
    """Whether a gradient that is not finite is backward's own doing.

    It is where forward stays finite on both sides of the elements in question; where it
    does not, x lies at the edge of forward's domain. Outputs that are not finite at x
    excuse the elements that they depend on and no others, so elements are then tried one
    by one. Costs 2 forward calls, or 7 for each of a few elements.
    """
    if bool(base.finite.all()):
        return _stays(trial, base, base.frozen)
    if not bool(base.finite.any()):
        return False
    for k, mask in enumerate(base.frozen):
        if mask is None:
            continue
        hit = mask.nonzero().reshape(-1)
        for at in hit[:: max(1, hit.numel() // _TRIED)][:_TRIED].tolist():
            alone = torch.zeros_like(mask)
            alone[at] = True
            only = [alone if n == k else None for n in range(len(base.frozen))]
            if _stays(trial, base, only) and not _mends(trial, base, k, at):
                return True
    return False


def _mends(trial: Trial, base: Base, which: int, at: int) -> bool:
    """Whether a tame value of one element changes an output that is not finite."""
    values = [p.values for p in trial.points]
    tame = typical(values[which])
    for value in (0.0, tame, -tame, 1e-3 * tame, -1e-3 * tame):
        moved = list(values)
        moved[which] = values[which].clone()
        moved[which][at] = value
        try:
            found = trial.forward(moved)[~base.finite]
        except Refused:
            return True
        if not torch.equal(
            found.nan_to_num(), base.graph.values[~base.finite].nan_to_num()
        ):
            return True
    return False


def _stays(trial: Trial, base: Base, moving: list[Tensor | None]) -> bool:
    """Whether outputs stay finite, or as they are, when just these elements move."""
    steps = [
        None
        if mask is None
        else direction(p, base.precision, stream(0), frozen=~mask).abs_()
        for p, mask in zip(trial.points, moving, strict=True)
    ]
    if not any(s is not None and bool(s.any()) for s in steps):
        return False
    try:
        around = [trial.forward(move(trial.points, steps, m)) for m in (1.0, -1.0)]
    except Refused:
        return False
    broken, was = ~base.finite, base.graph.values
    return all(
        bool(torch.isfinite(values[base.finite]).all())
        and torch.equal(values[broken].nan_to_num(), was[broken].nan_to_num())
        for values in around
    )


def _is_finite(gradient: Tensor | None) -> bool:
    return gradient is None or is_finite(gradient)
