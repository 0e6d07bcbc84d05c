"""BP107: a surrogate does what its author says that it does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from backproof.battery.difference import between
from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places
from backproof.diagnosis.region import Field
from backproof.probe import ANYWHERE, coarsest, typical
from backproof.records import Evidence, broken, held
from backproof.trial import Graph, Refused, Trial, declaration

_ROUNDINGS = 64.0  # of eps, relative to the declared element
_ROUNDINGS_COARSE = 8.0  # where 64 would be percents
_FAR = {torch.float16: 1e2}
_FAR_ELSEWHERE = 1e3  # "extreme", as a multiple of the inputs' own size
_BESIDE = 1e-6  # where a soft function's derivative jumps within this, either is right


@law("BP107")
def declared_gradient(examination: Examination) -> Iterator[Evidence]:
    """A declared surrogate's backward is what was declared, at ties and extremes too.

    Cost: 5 forwards and 6 backwards, and as many calls of the declaration.
    Blind to: whether the declared gradient is a good one.
    """
    trial = examination.trial
    if not trial.subject.declared:
        raise NotApplicable("no gradient is declared")
    here = [p.values for p in trial.points]
    for cotangent, kind in zip(
        examination.cotangents, ("random signs", "one sign"), strict=True
    ):
        claim = examination.inquiry.observer.pulled(cotangent)
        yield from _compare(trial, "the given inputs", here, cotangent, claim, kind)
    cotangent = examination.cotangents[0]
    for where, values in _elsewhere(trial):
        try:
            graph = trial.record(values)
        except Refused:
            continue
        if not bool(torch.isfinite(graph.values).all()):
            continue
        claim = trial.pull(graph, cotangent)
        yield from _compare(trial, where, values, cotangent, claim, "random signs")


def _elsewhere(trial: Trial) -> Iterator[tuple[str, list[Tensor]]]:
    """Inputs at ties, at the numbers among the arguments, and far out."""
    if any(p.domain != ANYWHERE for p in trial.points):
        return
    points = trial.points
    yield "ties (halves and integers)", [torch.round(2 * p.values) / 2 for p in points]
    bounds = sorted({abs(s) for s in trial.scalars if 0 < abs(s) < math.inf} | {1.0})
    pattern = points[0].values.new_tensor([s for b in bounds for s in (b, -b)] + [0.0])
    where = "bounds (" + ", ".join(f"±{b:g}" for b in bounds) + " and 0)"
    yield where, [_repeated(pattern, p.values.numel()) for p in points]
    yield (
        "extremes",
        [p.values * _FAR.get(p.dtype, _FAR_ELSEWHERE) for p in points],
    )


def _repeated(pattern: Tensor, size: int) -> Tensor:
    return pattern.repeat(-(-size // pattern.numel()))[:size]


def departures(trial: Trial, graph: Graph, cotangent: Tensor) -> Iterator[Evidence]:
    """Backward of a cotangent against the declaration, at the trial's own inputs."""
    values = [p.values for p in trial.points]
    claim = trial.pull(graph, cotangent)
    yield from _compare(trial, "the given inputs", values, cotangent, claim, "one sign")


def _compare(
    trial: Trial,
    where: str,
    values: Sequence[Tensor],
    cotangent: Tensor,
    claim: Sequence[Tensor | None],
    kind: str,
) -> Iterator[Evidence]:
    values = [v.to(p.dtype).double() for v, p in zip(values, trial.points, strict=True)]
    expected, allowed = _expected(trial, values, cotangent)
    for k, (i, got, want) in enumerate(zip(trial.inputs, claim, expected, strict=True)):
        if got is None and want is None:
            yield held(f"`{i.name}` gets no gradient, as declared")
            continue
        zero = torch.zeros_like(values[k])
        mine, theirs = (zero if g is None else g for g in (got, want))
        if theirs.numel() != mine.numel():
            theirs = theirs.expand_as(mine) if theirs.numel() == 1 else theirs
        yield _elementwise(
            trial, i.name, where, kind, values[k], mine, theirs, allowed[k]
        )


def _expected(
    trial: Trial, values: Sequence[Tensor], cotangent: Tensor
) -> tuple[list[Tensor | None], list[Tensor]]:
    """The declaration in the inputs' own types, and what each element may differ by.

    Where float64 gives another value, the span between the two is allowed as well: it
    is the declaration's own rounding.
    """
    eps = coarsest(trial.dtypes).eps
    rounding = max(_ROUNDINGS_COARSE * eps, min(_ROUNDINGS * eps, 1e-4))
    own = declaration.gradient_of(trial, values, trial.split(cotangent))
    dust = 8 * eps * typical(cotangent)  # what cancels leaves rounding
    allowed = [
        torch.zeros_like(v) if g is None else (g.abs() * rounding).clamp(min=dust)
        for g, v in zip(own, values, strict=True)
    ]
    if trial.subject.expect is not None:
        for sign in (1.0, -1.0):
            moved = [v * (1 + sign * _BESIDE) + sign * _BESIDE for v in values]
            beside = declaration.gradient_of(trial, moved, trial.split(cotangent))
            _widen(allowed, own, beside)
    wide = trial.in_float64()
    if wide is not None:
        try:
            finer = declaration.gradient_of(
                wide, values, [u.to(torch.float64) for u in trial.split(cotangent)]
            )
        except (ValueError, RuntimeError):
            return own, allowed
        _widen(allowed, own, finer)
    return own, allowed


def _widen(
    allowed: list[Tensor], own: Sequence[Tensor | None], other: Sequence[Tensor | None]
) -> None:
    for k, (a, b) in enumerate(zip(own, other, strict=True)):
        if a is not None and b is not None and a.numel() == b.numel():
            gap = torch.nan_to_num((a - b).abs(), 0.0, 0.0, 0.0)
            allowed[k] = allowed[k] + 2 * gap


def _elementwise(
    trial: Trial,
    name: str,
    where: str,
    kind: str,
    x: Tensor,
    claim: Tensor,
    declared: Tensor,
    allowed: Tensor,
) -> Evidence:
    decided = torch.isfinite(declared)
    gap = (claim - declared).abs()
    wrong = decided & ~(gap <= allowed)
    count, total = int(wrong.sum()), int(decided.sum())
    if not count:
        largest = (
            float((allowed / declared.abs().clamp(min=1e-300))[declared != 0].max())
            if (bool((declared != 0).any()))
            else 0.0
        )
        return held(
            f"`{name}` as declared at {where}, cotangent of {kind}",
            {"elements": total, "resolution": largest, "input": name},
        )
    here = partial(_field, trial, name, x)
    found = between(name, claim, declared, wrong, here)
    relation = "" if found.becomes == "changes" else f": it {found.becomes}"
    differing = f"{count} of {total} elements differ{found.pattern}"
    return broken(
        f"the gradient of `{name}` is not what was declared{relation}\n"
        f"backward claims {found.got + 0.0:.6g}\n"
        f"declared is     {found.expected + 0.0:.6g}\n"
        f"at {found.element}, where `{name}` is {float(x[found.at]):.6g}; {differing}, "
        f"at {where}",
        {
            "claim": found.got,
            "declared": found.expected,
            "elements_wrong": count,
            "elements": total,
            "input": name,
        },
        where=Places(trial).gradient(name),
    )


def _field(trial: Trial, name: str, x: Tensor) -> Field:
    """What elements may be named by where the input's values are `x`, float64 (n,)."""
    original = next(i for i in trial.inputs if i.name == name).original
    shape = tuple(original.shape)
    return Field(name, shape, None if original.is_complex() else x.reshape(shape))
