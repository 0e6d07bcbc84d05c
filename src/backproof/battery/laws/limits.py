"""BP508: nothing overflows or vanishes on the way to a number that fits."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from backproof.battery.cases import Variant, scales
from backproof.battery.examination import Examination
from backproof.battery.inquiry.base import begin, forward_is_finite_beside
from backproof.battery.law import NotApplicable, law
from backproof.battery.trial import BackwardRaised, Refused, Trial
from backproof.errors import BadInput
from backproof.probe import coarsest, real_dtype, typical
from backproof.records import Evidence, broken, held

_DIGITS = 0.5  # of the number: half of it gone is no rounding
_ROUNDINGS = 64.0  # of a number, in eps of the type
_MARGIN = 2.0**6  # from the ends of the type's range: what is closer may be lost


@law("BP508")
def limits(examination: Examination) -> Iterator[Evidence]:
    """The gradient holds at tiny and huge inputs, where forward does.

    Where forward agrees with its own float64 at inputs scaled far out, and the float64
    gradient is a number that the type holds well, backward must find it too. In float64
    backward must be finite where forward is.

    Cost: 2 forwards and 2 backwards, and as many in float64.
    Blind to: forwards that overflow themselves; scales beyond a third of the exponents.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    if examination.is_random or examination.trial.subject.declared:
        raise NotApplicable("forward is random, or its gradient is declared")
    tried = 0
    for variant in scales(examination.trial):
        try:
            evidence = _at(examination, variant)
        except (BadInput, Refused, BackwardRaised):
            continue
        if evidence is not None:
            tried += 1
            yield evidence
    if not tried:
        raise NotApplicable("forward itself does not hold far out, or has no float64")


def _at(examination: Examination, variant: Variant) -> Evidence | None:
    trial, cotangent = variant.trial, examination.base.cotangent
    graph = trial.record()
    if not bool(torch.isfinite(graph.values).all()):
        return None
    numbers = {"scale": variant.words}
    wide = trial.in_float64()
    if wide is None:
        return _finite(examination, variant)
    got = trial.pull(graph, cotangent)
    twin = wide.record()
    if twin.values.numel() != graph.values.numel() or not _near(
        graph.values, twin.values, trial
    ):
        return None
    true = wide.pull(twin, cotangent)
    # Below this a gradient times its input is what cancellation leaves of larger terms.
    dust = _ROUNDINGS * coarsest(trial.dtypes).eps * typical(cotangent * twin.values)
    for i, mine, exact in zip(trial.inputs, got, true, strict=True):
        if exact is None:
            continue
        claim = torch.zeros_like(exact) if mine is None else mine
        lost = _lost(claim, exact, real_dtype(i.original.dtype))
        lost &= exact.abs() > dust / i.point.values.abs()
        if bool(lost.any()):
            at = int(lost.nonzero()[0])
            return broken(
                f"with {variant.words} backward loses what its type can hold\n"
                f"`{i.name}` gets {float(claim[at]):.6g}, in float64 it is "
                f"{float(exact[at]):.6g}, and forward is right in both; "
                f"{int(lost.sum())} of {lost.numel()} elements: an intermediate "
                "overflows or vanishes",
                {**numbers, "input": i.name},
            )
    return held(f"{variant.words}: the gradient is float64's", numbers)


def _finite(examination: Examination, variant: Variant) -> Evidence:
    """In float64 there is no finer type to ask: no nan or inf of backward's own."""
    base = begin(variant.trial, examination.seed)
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
        )
    return held(f"{variant.words}: the gradient is finite", {"scale": variant.words})


def _near(native: Tensor, wide: Tensor, trial: Trial) -> bool:
    """Whether forward itself is right to a few roundings, element by element."""
    eps = coarsest(trial.dtypes).eps
    return bool(((native - wide).abs() <= _ROUNDINGS * eps * wide.abs()).all())


def _lost(claim: Tensor, exact: Tensor, dtype: torch.dtype) -> Tensor:
    """Elements that are far from a number which lies well inside of the type's range."""
    info, size = torch.finfo(dtype), exact.abs()
    holds = (size > info.tiny * _MARGIN) & (size < info.max / _MARGIN)
    off = ~((claim - exact).abs() <= _DIGITS * size)
    return holds & off
