"""A convicted gradient -> what diagnosis says of it, in a finding's words.

Diagnosis never turns a verdict: it is asked after `wrong` stands, within as many
forwards as the check has taken, and whatever it says is said beside that verdict.
"""

from __future__ import annotations

from collections.abc import Iterator

from backproof.battery.examination import Examination
from backproof.battery.inquiry import Conclusion, Inquiry
from backproof.diagnosis import Budget, Charge, Diagnosis, diagnose
from backproof.records import Number

_PREPOSITIONS = (
    *("where ", "in ", "between ", "at ", "off ", "on ", "above ", "below ", "beside "),
)
"""How a region's words may begin that need no "at" before them."""

_LEAST = 100  # forwards that a diagnosis may take, however few the check took
_MOST_INPUTS = 4  # wrong inputs that are looked into


def diagnoses(
    examination: Examination, conclusion: Conclusion
) -> Iterator[tuple[str, Diagnosis]]:
    """(name, diagnosis) of each wrong input of a conclusion, the first few."""
    inquiry = _inquiry(examination, conclusion)
    look = conclusion.look
    if inquiry is None or look is None:
        return
    calls = inquiry.trial.calls
    budget = Budget(calls, max(_LEAST, calls.forward))
    names = [i.name for i in inquiry.trial.inputs]
    wrong = list(conclusion.wrong_inputs) or (names if len(names) == 1 else [])
    for name in wrong[:_MOST_INPUTS]:
        yield name, diagnose(_charge(inquiry, conclusion, names.index(name)), budget)


def diagnosis_of(
    inquiry: Inquiry, conclusion: Conclusion, name: str, forwards: int
) -> Diagnosis | None:
    """What is wrong with one input's gradient; None where nothing was measured of it."""
    names = [i.name for i in inquiry.trial.inputs]
    if conclusion.look not in inquiry.looks or name not in names:
        return None
    charge = _charge(inquiry, conclusion, names.index(name))
    return diagnose(charge, Budget(inquiry.trial.calls, forwards))


def _inquiry(examination: Examination, conclusion: Conclusion) -> Inquiry | None:
    """The inquiry that the conclusion is of."""
    for inquiry in (examination.wide, examination.inquiry):
        if inquiry is not None and any(k is conclusion.look for k in inquiry.looks):
            return inquiry
    return None


def _charge(inquiry: Inquiry, conclusion: Conclusion, index: int) -> Charge:
    look = conclusion.look
    assert look is not None
    alone = len(inquiry.trial.inputs) == 1
    factor = look.factor
    view = conclusion.inputs.get(inquiry.trial.inputs[index].name)
    if view is not None and view.rejects:
        factor = view.comparison.relative_step / look.precision.step
    rounding = [
        c.claim.error / c.size for c in look.comparisons if c.size > 0 and c.claim.error
    ]
    return Charge(
        referee=inquiry.observer,
        index=index,
        ladders=look.ladders if alone else (),
        response=look.response,
        factor=factor,
        cotangents=look.cotangents,
        rounding=min(rounding, default=look.precision.eps),
        seed=inquiry.seed,
    )


def title_of(name: str, found: Diagnosis) -> str:
    """What is wrong and where, in a line."""
    said = "is not forward's derivative"
    if found.explanation is not None:
        said = found.explanation.title
    title = f"the gradient of `{name}` {said}"
    region = found.region
    if region is None or region.everywhere:
        return title
    place = region.words
    if place.startswith("scattered"):
        return title
    if not place.startswith(_PREPOSITIONS):
        place = f"at {place}"
    return f"{place}, {title}"


def lines_of(found: Diagnosis) -> Iterator[str]:
    """The elements, one of them as an example, and what was ruled out, a line each."""
    region, explanation, example = found.region, found.explanation, found.example
    if region is not None and not region.everywhere:
        most = "" if region.exact else "at most "
        yield (
            f"seen in {most}{region.count:,} of {region.mask.numel():,} elements of "
            f"`{found.name}`"
        )
    if example is not None:
        yield (
            f"such as {example.name}: claimed {example.claim:.6g}, true {example.truth}"
        )
    if explanation is not None and explanation.detail:
        yield explanation.detail
    if explanation is None and found.ruled_out:
        names = ", ".join(name.replace("_", " ") for name in found.ruled_out)
        yield f"not explained; ruled out: {names}"


def numbers_of(found: Diagnosis) -> dict[str, Number]:
    """The same for a report."""
    numbers: dict[str, Number] = {
        "input": found.name,
        "cause": found.explanation.cause if found.explanation else "not explained",
        "diagnosis_forwards": found.forwards,
    }
    if found.explanation is None:
        numbers["ruled_out"] = list(found.ruled_out)
    region = found.region
    if region is not None:
        numbers["region"] = region.words
        numbers["region_expression"] = region.expression
        numbers["region_share"] = region.share
    return numbers
