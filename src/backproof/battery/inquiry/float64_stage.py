"""The same call in float64: whether the formula is right, before its precision is judged.

A fault that shows in float64 is a fault of the formula. Where float64 passes, the
gradient in the inputs' own type has a second witness: it may differ from the verified
one by that type's rounding, and by no more.
"""

from __future__ import annotations

import math

from backproof.battery.inquiry.conclusion import Conclusion
from backproof.battery.inquiry.inquiry import Inquiry
from backproof.battery.inquiry.look import Look, OutsideDomain
from backproof.errors import BadInput
from backproof.probe import PRECISIONS
from backproof.trial import BackwardRaised, Refused, Trial
from backproof.trial.vectors import inner, minus, norm, overlap

_FINEST = min(p.eps for p in PRECISIONS.values())
_ROUNDINGS = 8.0  # of an element, in eps: a few operations, each rounded to the type
_COHERENT = 2.0  # of the whole, in eps: constants rounded to the type


def wide_inquiry(trial: Trial, native: Inquiry, *, seed: int) -> Inquiry | None:
    """The inquiry in float64; None where that is what it runs in, or it does not run."""
    if native.base.precision.eps <= _FINEST:
        return None
    wide = trial.in_float64()
    if wide is None:
        return None
    try:
        inquiry = Inquiry(wide, seed=seed)
    except (BadInput, Refused, BackwardRaised):
        return None
    same = [o.shape for o in wide.outputs] == [o.shape for o in trial.outputs]
    if not same or inquiry.base.precision.eps > _FINEST:
        return None
    return inquiry


def departure(
    native: Inquiry, wide: Inquiry, conclusion: Conclusion
) -> tuple[float, bool]:
    """How far the native gradient is from float64's, and whether rounding explains it.

    The distance is relative, of the whole or of the typical element, whichever is
    larger, over the lines and cotangents of the native look. Costs up to 2 backwards.
    """
    look = conclusion.look
    if look is None:
        return math.inf, False
    eps = native.base.precision.eps
    worst, explained = 0.0, True
    for cotangent, gradient in zip(look.cotangents, look.gradients, strict=True):
        verified = wide.observer.gradient(cotangent)
        change = minus(gradient, verified)
        for ladder in look.ladders:
            size = overlap(verified, ladder.steps)
            whole = max(abs(inner(verified, ladder.steps)), size)
            if whole == 0:
                continue
            each = overlap(change, ladder.steps) / size
            together = abs(inner(change, ladder.steps)) / whole
            noise = 0.0
            if native.observer.backward_noise is not None:
                noise = overlap(native.observer.backward_noise, ladder.steps) / size
            explained &= each <= max(_ROUNDINGS * eps, 4 * noise)
            explained &= together <= max(_COHERENT * eps, 4 * noise)
            worst = max(worst, each, together)
    return worst, explained


def contradicts(
    native: Inquiry, wide: Inquiry, conclusion: Conclusion, distance: float
) -> bool:
    """Whether float64 convicts a gradient that native forward is too coarse to judge.

    It does where both run the same function (their outputs agree to rounding), where
    the gradients are farther apart than a pass may leave open, and where float64 finds
    its own derivative with the native steps.
    """
    look = conclusion.look
    if look is None or distance <= look.precision.resolution / 2:
        return False
    if any(c.is_dust for c in look.comparisons):
        return False
    here, there = native.base.values, wide.base.values
    apart = float((here - there).norm())
    if apart > 2 * native.base.precision.eps * float(there.norm()):
        return False
    return steps_fit(native, wide, look)


def witness(native: Inquiry, wide: Inquiry, conclusion: Conclusion) -> dict[str, float]:
    """Weak inputs whose native gradient is float64's, with the relative distance.

    Costs up to 2 float64 backwards, and none where every input was resolved.
    """
    look = conclusion.look
    weak = [name for name, view in conclusion.inputs.items() if not view.resolved]
    if look is None or not weak:
        return {}
    eps = native.base.precision.eps
    names = [i.name for i in native.trial.inputs]
    distance = dict.fromkeys(weak, 0.0)
    for cotangent, gradient in zip(look.cotangents, look.gradients, strict=True):
        verified = wide.observer.gradient(cotangent)
        change = minus(gradient, verified)
        for name in weak:
            k = names.index(name)
            size = norm([verified[k]])
            if size:
                distance[name] = max(distance[name], norm([change[k]]) / size)
    return {name: d for name, d in distance.items() if d <= _ROUNDINGS * eps}


def steps_fit(native: Inquiry, wide: Inquiry, look: Look) -> bool:
    """Whether float64 itself finds its derivative with the native look's steps.

    The steps that a coarse type resolves can be too long for a function: it then
    rejects what is right. Costs as many float64 forwards as the look took.
    """
    p = look.precision
    try:
        ladders = wide.observer.climb(native.observer.lines(p, look.factor), p)
        response = wide.observer.respond(ladders, p, look.factor)
    except (Refused, OutsideDomain):
        return False
    gradients = [wide.observer.gradient(u) for u in look.cotangents]
    seen = wide.observer.compare(ladders, response, look.cotangents, gradients)
    return not any(c.rejects for c in seen)
