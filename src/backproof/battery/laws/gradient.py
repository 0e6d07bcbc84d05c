"""BP101, the law that all others serve.

For an output y = f(x), any cotangent u of y and any direction d of x,

    <backward(u), d>  =  d/dt <u, f(x + t d)>  at t = 0.

The left side asks backward; the right side asks only forward, through `probe`, so the
two share no code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from backproof.battery.diagnosing import diagnoses, lines_of, numbers_of, title_of
from backproof.battery.examination import Examination
from backproof.battery.inquiry import Conclusion, Kind
from backproof.battery.inquiry.look import Comparison
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places
from backproof.battery.two_stages import Gradient
from backproof.diagnosis import Diagnosis
from backproof.records import Evidence, Number, broken, held, undecided

_AT_A_KINK = (
    "At the kink return a value between the one-sided derivatives; where inputs tie, "
    "share the gradient or give it to one of them."
)


def _explained(examination: Examination) -> Iterator[Evidence]:
    """The accusations once more, with a diagnosis of each: as many calls again."""
    conclusion = examination.gradient.decided_by
    found = dict(diagnoses(examination, conclusion))
    yield from _wrong(examination, conclusion, found)


@law("BP101", explain=_explained)
def gradient(examination: Examination) -> Iterator[Evidence]:
    """Backward is the vector-Jacobian product of forward, for every differentiable input.

    Cost: 15 forwards and 4 backwards; 6 forwards for each input too weak to be seen
    beside the others, 6 forwards and 2 backwards where outputs sit on kinks; a float64
    stage of the same cost where the subject has one; about 60 more where it accuses.
    Blind to: outputs that were set aside, faults below the stated resolution, and other
    values, strides and subsets of inputs than the case's own.
    """
    if examination.trial.subject.declared:
        raise NotApplicable("the intended gradient is declared: see BP107")
    found = examination.gradient
    if found.kind is Kind.STAIRCASE:
        raise NotApplicable("forward is piecewise constant: see BP106")
    if found.kind is Kind.RIGHT or found.precision_only:
        yield _right(examination, found)
        yield from _unresolved(found)
    elif found.kind is Kind.WRONG:
        yield from _wrong(examination, found.decided_by, {})
    else:
        words = found.decided_by.words
        if found.wide is not None and found.wide.kind is Kind.RIGHT:
            words = f"right in float64; in the inputs' own type: {words}"
        yield undecided(words, _numbers(found.decided_by))


def _right(examination: Examination, found: Gradient) -> Evidence:
    resting = (
        found.decided_by if found.kind is Kind.RIGHT else found.wide or found.native
    )
    assert resting is not None
    words = "backward's claim agrees with how forward moves"
    if resting.words:
        words = resting.words
    if found.precision_only and found.wide is None:
        words = "right to the digits of a coarser type only: see BP110"
    elif found.wide is resting:
        words = f"{words} in float64"
        if found.departure is not None and found.kind is Kind.RIGHT:
            words += (
                "; in the inputs' own type the gradient differs from it by "
                f"{found.departure:.1g}, which is rounding"
            )
    elif found.wide is not None and found.wide.kind is Kind.RIGHT:
        words += ", in float64 as well"
    if resting.inside is not None:
        kind = str(resting.inside).removeprefix("torch.")
        words += f"; forward computes with about the digits of {kind}"
    numbers = _numbers(resting)
    if found.departure is not None:
        numbers["departure_from_float64"] = found.departure
    return held(words, numbers)


def _unresolved(found: Gradient) -> Iterator[Evidence]:
    """Inputs, and whole outputs, that the comparison did not reach."""
    conclusion = found.decided_by
    if conclusion.kind is not Kind.RIGHT:
        return
    for name, view in conclusion.inputs.items():
        if view.resolved or name in found.witnessed:
            continue
        limit = view.comparison.enough
        yield undecided(
            f"`{name}` is too weak to be judged beside the others: an error of "
            f"{view.comparison.resolution:.1g} of its gradient would not show, and a "
            f"pass needs {limit:g}; give it alone, or with larger values",
            {"input": name, "resolution": view.comparison.resolution},
        )
    for name, share in conclusion.set_aside.items():
        yield undecided(
            f"`{name}` was not compared: {share:.0%} of it kinks, jumps or is noise at "
            "these inputs; give inputs away from its kinks, or check it alone",
            {"output": name, "share_set_aside": share},
        )


def _wrong(
    examination: Examination,
    conclusion: Conclusion,
    found: Mapping[str, Diagnosis],
) -> Iterator[Evidence]:
    names = list(conclusion.wrong_inputs) or _only(examination)
    kinks, places = conclusion.kinks, Places(examination.trial)
    if kinks is not None and kinks.rejects:
        rejecting = [c for c in kinks.comparisons if c.rejects] or kinks.comparisons
        remark = f"at a kink of forward: {kinks.words}"
        yield _accuse(places, names, rejecting, remark, remedy=_AT_A_KINK)
        return
    every = list(conclusion.look.comparisons) if conclusion.look else []
    for name in names if conclusion.wrong_inputs else [""]:
        only = name or (names[0] if names else "")
        view = conclusion.inputs.get(name)
        comparisons = [view.comparison] if view is not None else every
        accused = [only] if only else []
        yield _accuse(places, accused, comparisons, diagnosis=found.get(only))


def _only(examination: Examination) -> list[str]:
    names = [i.name for i in examination.trial.inputs]
    return names if len(names) == 1 else []


def _accuse(
    places: Places,
    names: list[str],
    comparisons: list[Comparison],
    remark: str = "",
    diagnosis: Diagnosis | None = None,
    remedy: str = "",
) -> Evidence:
    worst = max(comparisons, key=lambda c: abs(c.error) / max(c.bar, 1e-300))
    of = f" of `{names[0]}`" if len(names) == 1 else ""
    size = max(worst.size, worst.null)
    apart = abs(worst.error) / size if size else math.inf
    title = f"the gradient{of} is not forward's derivative"
    numbers: dict[str, Number] = {"input": names[0]} if len(names) == 1 else {}
    more: list[str] = []
    if diagnosis is not None:
        title, more = title_of(names[0], diagnosis), list(lines_of(diagnosis))
        numbers = numbers_of(diagnosis)
        if diagnosis.explanation is not None:
            remedy = diagnosis.explanation.remedy
    lines = [
        title,
        f"backward claims  {worst.per_unit(worst.claim)}",
        f"forward moves by {worst.per_unit(worst.truth)}",
        f"apart by {apart:.2g} of the size that it has here",
        *more,
    ]
    where = places.gradient(names[0]) if len(names) == 1 else places.returned()
    lines += [said for said in (remark, places.outside()) if said]
    return broken(
        "\n".join(lines),
        {**numbers, **_sides(worst), "relative_error": apart},
        where=where,
        remedy=remedy,
    )


def _sides(comparison: Comparison) -> dict[str, float]:
    unit = comparison.relative_step
    return {
        "claim": comparison.claim.value / unit,
        "truth": comparison.truth.value / unit,
        "bar": comparison.bar / unit,
    }


def _numbers(conclusion: Conclusion) -> dict[str, float]:
    look, worst = conclusion.look, conclusion.worst
    if look is None or worst is None:
        return {}
    response = look.response
    usable = int(response.usable.sum())
    outside = response.usable.numel() - usable
    aside = 0 if response.not_smooth else int(response.aside.sum())
    return {
        **_sides(worst),
        "resolution": look.resolution,
        "share_set_aside": (aside + outside) / max(1, response.usable.numel()),
        "relative_step": response.relative_step,
    }
