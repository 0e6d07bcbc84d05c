"""The gradient over both stages: in float64 where that runs, and in the inputs' own type.

A fault in float64 is one of the formula. After that the native stage has a witness: what
it cannot decide float64 may, and what it rejects float64 has to allow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from backproof.battery.inquiry import Conclusion, Inquiry, Kind
from backproof.battery.inquiry.float64_stage import (
    contradicts,
    departure,
    steps_fit,
    witness,
)
from backproof.battery.inquiry.look import Comparison
from backproof.probe import PRECISIONS, nearest

_FEW = 4.0  # roundings of a gradient that are no fault of the formula

_TOO_COARSE = (
    "the inputs' own type is too coarse for this function: float64 itself does not find "
    "its derivative with the steps that it resolves"
)


@dataclass(frozen=True)
class Gradient:
    """The conclusion about the gradient over both stages.

    Attributes:
        kind: of the stage that decided.
        decided_by: the conclusion it rests on.
        native: in the types of the inputs; None where the float64 stage convicted.
        wide: in float64, None where the subject has no other float64 than its own.
        departure: relative distance of the native gradient from float64's, where it
            was needed to decide.
        witnessed: inputs too weak to be seen in their own type, whose gradient is that of
            float64 but for this relative distance.
        stairs: inputs of which alone forward is piecewise constant, and which backward
            sends something; empty where it is so in all inputs together.
        precision_only: wrong in the inputs' own types and right in float64, or wrong by
            no more than a coarser type's rounding.
    """

    kind: Kind
    decided_by: Conclusion
    native: Conclusion | None = None
    wide: Conclusion | None = None
    departure: float | None = None
    witnessed: Mapping[str, float] = field(default_factory=dict)
    stairs: tuple[str, ...] = ()
    precision_only: bool = False


def judge_gradient(inquiry: Inquiry, wide: Inquiry | None) -> Gradient:
    """Both stages and what they say together; `wide` is the one in float64, if any."""
    if wide is None:
        native = inquiry.conclude()
        minor = _within_coarser_type(native, inquiry)
        return Gradient(native.kind, native, native, precision_only=minor)
    formula = wide.conclude()
    minor = _within_coarser_type(formula, wide)  # below the inputs' own digits
    minor |= rounds_to(inquiry.base.precision.eps, formula)
    if formula.kind in (Kind.WRONG, Kind.STAIRCASE) and not minor:
        return Gradient(formula.kind, formula, wide=formula)
    native = inquiry.conclude()
    if formula.kind is Kind.RIGHT:
        return _with_witness(inquiry, wide, native, formula)
    return _without_witness(inquiry, wide, native, formula)


def _with_witness(
    inquiry: Inquiry, wide: Inquiry, native: Conclusion, formula: Conclusion
) -> Gradient:
    """float64 found the formula right."""
    if native.kind is Kind.RIGHT and inquiry.base.precision.decades:
        known = witness(inquiry, wide, native)
        return Gradient(Kind.RIGHT, native, native, formula, witnessed=known)
    distance, explained = departure(inquiry, wide, native)
    if native.kind is Kind.RIGHT:
        # In 16 bits forward resolves so little that the witness is asked even so.
        if explained or not contradicts(inquiry, wide, native, distance):
            known = witness(inquiry, wide, native)
            return Gradient(Kind.RIGHT, native, native, formula, witnessed=known)
        native = dataclasses.replace(native, kind=Kind.WRONG)
    elif explained:
        return Gradient(Kind.RIGHT, formula, native, formula, distance)
    elif native.look is not None and (
        native.kind is Kind.STAIRCASE or not steps_fit(inquiry, wide, native.look)
    ):
        native = dataclasses.replace(native, kind=Kind.UNDECIDED, words=_TOO_COARSE)
    only = native.kind is Kind.WRONG
    return Gradient(native.kind, native, native, formula, distance, precision_only=only)


def _without_witness(
    inquiry: Inquiry, wide: Inquiry, native: Conclusion, formula: Conclusion
) -> Gradient:
    """float64 could not decide, or found no more than a loss of digits."""
    if native.kind is Kind.RIGHT:
        return Gradient(native.kind, native, native, formula)
    distance, explained = departure(inquiry, wide, native)
    if formula.kind is Kind.KINK and explained:
        return Gradient(Kind.RIGHT, formula, native, formula, distance)
    # The same gradient at values that float64 could not decide; and what float64 could
    # not, 16 bits cannot either.
    beyond = explained or not inquiry.base.precision.decades
    if native.kind is Kind.WRONG and formula.kind is not Kind.WRONG and beyond:
        return Gradient(formula.kind, formula, native, formula, distance)
    return Gradient(native.kind, native, native, formula, distance)


def _within_coarser_type(conclusion: Conclusion, inquiry: Inquiry) -> bool:
    """Whether a wrong gradient is right to about the digits of the next coarser type."""
    if conclusion.kind is not Kind.WRONG or conclusion.worst is None:
        return False
    own = inquiry.base.precision.eps
    coarser = [p.eps for p in PRECISIONS.values() if p.eps > 2**10 * own]
    if not coarser or conclusion.look is None:
        return False
    every = [*conclusion.look.comparisons, *_apart(conclusion)]
    # Relative to its own size: a weak input is no rounding error of a strong one.
    sizes = [abs(c.error) / max(c.size, 1e-300) for c in every]
    return bool(max(sizes) <= 4 * min(coarser))


def rounds_to(eps: float, conclusion: Conclusion) -> bool:
    """Whether a wrong float64 gradient is one that backward itself rounds to a type.

    A kernel of one type casts its result to that, whatever it is given: then every
    element lies on the type's grid, and it is off by no more than a few roundings.
    """
    if conclusion.kind is not Kind.WRONG or conclusion.look is None:
        return False
    dtype = nearest(eps)[0]
    for gradient in conclusion.look.gradients:
        given = [g for g in gradient if g is not None and bool(g.any())]
        if not any(torch.equal(g.to(dtype).double(), g) for g in given):
            return False
    every = [*conclusion.look.comparisons, *_apart(conclusion)]
    return all(abs(c.error) <= _FEW * eps * max(c.size, 1e-300) for c in every)


def _apart(conclusion: Conclusion) -> list[Comparison]:
    """The comparisons of single inputs and of outputs at kinks."""
    kinks = conclusion.kinks.comparisons if conclusion.kinks else []
    return [*(view.comparison for view in conclusion.inputs.values()), *kinks]
