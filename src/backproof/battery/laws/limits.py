"""BP508: nothing overflows or vanishes on the way to a number that fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from backproof.battery.agreement import field_of_input, field_of_output
from backproof.battery.cases import BEYOND_EXP, Variant, scales
from backproof.battery.difference import Difference, between
from backproof.battery.examination import Examination
from backproof.battery.inquiry.base import begin, forward_is_finite_beside
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places
from backproof.errors import BadInput
from backproof.probe import coarsest, real_dtype, typical
from backproof.records import Evidence, Location, broken, held
from backproof.trial import BackwardRaised, Output, Refused, Trial

_DIGITS = 0.5  # of the number: half of it gone is no rounding
_ROUNDINGS = 64.0  # of a number, in eps of the type
_MARGIN = 2.0**6  # from the ends of the type's range: what is closer may be lost


@law("BP508")
def limits(examination: Examination) -> Iterator[Evidence]:
    """Values and gradients hold at tiny and large inputs, where float64 has them.

    The subject runs at scaled inputs in its own type, or in float32 where that is
    float64, and in float64 beside it. Where float64 finds a number that the type holds
    well, the type must find it too. In float64 itself backward must be finite where
    forward is.

    Cost: 1 forward and 1 backward for each of up to four scales, twice as many in float64.
    Blind to: what float64 loses as well; scales beyond those tried.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    if examination.is_random or examination.trial.subject.declared:
        raise NotApplicable("forward is random, or its gradient is declared")
    if not bool(examination.base.finite.all()):
        raise NotApplicable("forward is not finite at the given inputs")
    tried = 0
    for variant in scales(examination.trial):
        try:
            evidence = _at(examination, variant)
        except (BadInput, Refused, BackwardRaised):
            continue
        tried += 1
        yield evidence
    if not tried:
        raise NotApplicable("it does not run at other scales")


def _at(examination: Examination, variant: Variant) -> Evidence:
    trial = variant.trial
    wide = trial.in_float64()
    if wide is None:
        return _finite(examination, variant)
    cotangent = _cotangent(examination, trial)
    mine, true = _answers(trial, cotangent), _answers(wide, cotangent)
    if [o.shape for o in trial.outputs] != [o.shape for o in wide.outputs]:
        raise Refused("its float64 has another form")
    eps, terms = coarsest(trial.dtypes).eps, _largest(cotangent * true.values)
    numbers = {"scale": variant.words}
    if variant.label == BEYOND_EXP:  # farther out many a right forward ends
        for output in trial.outputs:
            got, exact = mine.values[output.part], true.values[output.part]
            lost = _lost(got, exact, output.dtype) & ~torch.isfinite(got)
            if bool(lost.any()):
                here = partial(field_of_output, trial, output)
                found = between(output.name, got, exact, lost, here)
                where = Places(trial).forward_return(trial.outputs.index(output))
                return _broken(variant, f"`{output.name}`", found, where)
    if not all(_near(mine.values, true.values, o, trial) for o in trial.outputs):
        return held(f"{variant.words}: forward itself is too coarse there", numbers)
    saturated = variant.label == BEYOND_EXP
    plain = [
        typical(g) if saturated and g is not None else 0.0
        for g in examination.base.gradient
    ]
    for i, claim, exact, usual in zip(
        trial.inputs, mine.gradient, true.gradient, plain, strict=True
    ):
        lost = _lost(claim, exact, i.original.dtype)
        # What is far below its own terms is left over from their cancellation.
        size = max(terms / typical(i.point.values), usual, _largest(exact))
        lost &= (exact.abs() > _ROUNDINGS * eps * size) | ~torch.isfinite(claim)
        if bool(lost.any()):
            here = partial(field_of_input, trial, i.name)
            found = between(i.name, claim, exact, lost, here)
            where = Places(trial).gradient(i.name)
            return _broken(variant, f"the gradient of `{i.name}`", found, where)
    return held(f"{variant.words}: the values and gradients are float64's", numbers)


def _largest(gradient: Tensor) -> float:
    """What a gradient much smaller may be left over from, where terms cancel."""
    return (
        float(gradient.abs().nan_to_num(0.0, 0.0, 0.0).max()) if len(gradient) else 0.0
    )


@dataclass(frozen=True)
class _Answers:
    values: Tensor
    gradient: Sequence[Tensor]


def _answers(trial: Trial, cotangent: Tensor) -> _Answers:
    graph = trial.record()
    found = trial.pull(graph, cotangent)
    zeros = [torch.zeros_like(p.values) for p in trial.points]
    return _Answers(
        graph.values,
        [z if g is None else g for g, z in zip(found, zeros, strict=True)],
    )


def _cotangent(examination: Examination, trial: Trial) -> Tensor:
    """The base's cotangent as the trial's outputs can hold it."""
    trial.record()
    return trial.represent(examination.base.cotangent)


def _broken(
    variant: Variant, what: str, found: Difference, where: Location | None
) -> Evidence:
    lost = found.becomes if found.becomes != "changes" else "is lost"
    return broken(
        f"with {variant.words} {what} {lost}, and the type can hold it\n"
        f"{found.got + 0.0:.6g} at {found.element}, in float64 {found.expected:.6g}; "
        f"{found.extent}\n"
        "an intermediate overflows or vanishes",
        {"scale": variant.words, "elements_wrong": found.count},
        where=where,
    )


def _finite(examination: Examination, variant: Variant) -> Evidence:
    """In float64 there is no finer type to ask: no nan or inf of backward's own."""
    base = begin(variant.trial, examination.seed)
    if not bool(base.finite.all()):
        raise Refused("forward is not finite there")  # nan times zero is nan
    hit = [
        i.name
        for i, mask in zip(variant.trial.inputs, base.frozen, strict=True)
        if mask is not None
    ]
    if hit and forward_is_finite_beside(variant.trial, base):
        return broken(
            f"with {variant.words} the gradient of `{hit[0]}` is nan or inf\n"
            "forward is finite there and beside it: an intermediate overflows",
            {"scale": variant.words, "input": hit[0]},
            where=Places(variant.trial).gradient(hit[0]),
        )
    return held(f"{variant.words}: the gradient is finite", {"scale": variant.words})


def _near(native: Tensor, wide: Tensor, output: Output, trial: Trial) -> bool:
    """Whether forward itself is right to a few roundings, where its type holds it."""
    got, exact = native[output.part], wide[output.part]
    allowed = _ROUNDINGS * coarsest(trial.dtypes).eps * exact.abs()
    close = (got - exact).abs() <= allowed
    return bool((close | ~_holds(exact, output.dtype)).all())


def _lost(claim: Tensor, exact: Tensor, dtype: torch.dtype) -> Tensor:
    """Elements that are far from a number which the type holds well."""
    off = ~((claim - exact).abs() <= _DIGITS * exact.abs())
    return _holds(exact, dtype) & off


def _holds(exact: Tensor, dtype: torch.dtype) -> Tensor:
    """Numbers well inside of the type's range."""
    info, size = torch.finfo(real_dtype(dtype)), exact.abs()
    fits = size < info.max / _MARGIN
    if dtype.is_complex:  # where one part overflows the other is nan
        fits = fits.reshape(-1, 2).all(1).repeat_interleave(2)
    return (size > info.tiny * _MARGIN) & fits
