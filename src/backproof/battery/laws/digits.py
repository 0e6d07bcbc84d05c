"""BP110: the gradient has the digits that its type can hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from backproof.battery.examination import Examination
from backproof.battery.inquiry import Kind
from backproof.battery.inquiry.look import relative
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places, called_at
from backproof.probe import PRECISIONS, Precision
from backproof.records import Evidence, broken, held
from backproof.trial.vectors import minus

_MARGIN = 16.0  # noise this far below the next coarser type's eps is the type's own
_ROUNDINGS = 64.0  # of eps, of the natural slope: what cancellation may leave behind
_CONDITIONED = 32.0  # times what the inputs' last digits do to the gradient
_CASTS = ("half", "bfloat16", "float")
_ODD_SCALE = 1.37  # not a power of two, so that every product rounds anew


@law("BP110")
def digits(examination: Examination) -> Iterator[Evidence]:
    """Backward keeps the digits that its precision allows.

    Cost: 1 backward.
    Blind to: losses that forward shares (it is then judged by forward's own digits), and
    digits lost in single elements far smaller than the others.
    """
    if examination.trial.subject.declared:
        raise NotApplicable("the declaration is compared to its last digits: see BP107")
    found = examination.gradient
    if found.precision_only:
        yield _precision_fault(examination)
        return
    if found.kind is not Kind.RIGHT:
        raise NotApplicable("the gradient itself is in question: see BP101")
    if found.departure is not None:
        yield held(
            f"the gradient is float64's to {found.departure:.1g}, which is its rounding",
            {"departure_from_float64": found.departure},
        )
        return
    yield _rounding(examination)


def _precision_fault(examination: Examination) -> Evidence:
    found = examination.gradient
    comparison = found.decided_by.worst
    assert comparison is not None
    apart = abs(comparison.error) / max(comparison.size, 1e-300)
    names = found.decided_by.wrong_inputs
    every = [i.name for i in examination.trial.inputs]
    only = names[0] if len(names) == 1 else every[0] if len(every) == 1 else ""
    lines = [f"the gradient{f' of `{only}`' if only else ''} loses digits"]
    if comparison.rejects:
        lines += [
            f"backward claims  {comparison.per_unit(comparison.claim)}",
            f"forward moves by {comparison.per_unit(comparison.truth)}",
        ]
    if found.departure is not None:
        apart = found.departure
        lines.append(
            "in float64 it is right, so the formula is; in the inputs' own type it is "
            f"{apart:.2g} of the gradient away from that"
        )
    else:
        lines.append(f"apart by {apart:.2g}: right to the digits of a coarser type")
    accusation = broken("\n".join(lines), {"relative_error": apart})
    return _placed(examination, accusation, only)


def _rounding(examination: Examination) -> Evidence:
    """The gradient of 1.37 u is 1.37 times that of u, but for rounding."""
    inquiry, base = examination.inquiry, examination.base
    look = inquiry.looks[-1] if inquiry.looks else None
    own = inquiry.precision
    limit = _coarser_noise(own)
    if look is None or limit is None:
        raise NotApplicable("there is no coarser type to fall back to")
    cotangent, gradient = look.cotangents[0], look.gradients[0]
    scaled = examination.trial.represent(cotangent * _ODD_SCALE)
    again = examination.trial.pull(base.graph, scaled)
    back = [None if g is None else g / _ODD_SCALE for g in again]
    change = minus(back, gradient)
    gap, size, natural = examination.sizes(change, gradient)
    if size <= own.null * natural:
        raise NotApplicable(
            "the gradient is as good as zero, so it has no digits to lose"
        )
    share = relative(gap, max(size, _ROUNDINGS * own.eps / limit * natural))
    numbers = {"rounding": share, "allowed": limit}
    if share <= max(limit, _ROUNDINGS * look.response.grain):
        return held(f"backward rounds at {share:.1g} of the gradient", numbers)
    if share <= _CONDITIONED * examination.conditioning:
        return held(
            f"backward rounds at {share:.1g} of the gradient, and moves by "
            f"{examination.conditioning:.1g} with the last digit of the inputs",
            numbers,
        )
    accusation = broken(
        "backward computes in a coarser type than forward\n"
        f"its rounding is {share:.1g} of the gradient, where {own.eps:.1g} is possible "
        f"and forward's own grain is {look.response.grain:.1g}",
        numbers,
    )
    return _placed(examination, accusation)


def _placed(examination: Examination, evidence: Evidence, name: str = "") -> Evidence:
    """The evidence at a cast to a coarser type, or where the gradient is made."""
    places = Places(examination.trial)
    names = [i.name for i in examination.trial.inputs]
    codes = [places.backward] if places.backward is not None else []
    cast, remedy = called_at(codes, _CASTS), ""
    if cast is not None:
        remedy = "Leave out the cast, or compute in a wider type and cast at the end."
    name = name or (names[0] if len(names) == 1 else "")
    made = places.gradient(name) if name else places.returned()
    return dataclasses.replace(evidence, where=cast or made, remedy=remedy)


def _coarser_noise(own: Precision) -> float | None:
    coarser = [p.eps for p in PRECISIONS.values() if p.eps > 2**10 * own.eps]
    return min(coarser) / _MARGIN if coarser else None
