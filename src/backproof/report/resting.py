"""What a verdict rests on, in a line or two: resolution, what is set aside, calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from backproof.records import Judgement, Status

_LISTED = 4  # inputs named one by one; a module has dozens of parameters
_REFERENCE = "BP111"
_FLOAT64 = "_float64"  # calls of the float64 stage are counted under this suffix


def rests_on(subject: Judgement) -> Iterator[str]:
    """The lines below a pass."""
    gradient = sees_in_words(subject) or _declared(subject) or _said(subject)
    aside = _set_aside(subject)
    if gradient:
        yield f"{gradient}; {aside}" if aside else gradient
    held = len({o.code for o in subject.outcomes if o.status is Status.HELD})
    laws = f"{held} law{'' if held == 1 else 's'} held"
    cases = len({o.case for o in subject.outcomes})
    if cases > 1:
        laws += f" on {cases} cases"
    calls = _calls(subject.calls)
    yield f"{laws} in {calls}" if calls else laws
    if forward_was_judged(subject):
        yield "forward agrees with the reference"
    if missing := left_out(subject):
        yield missing


def left_out(subject: Judgement) -> str:
    """The laws that nobody asked because the budget was spent, in a line."""
    missing = [o for o in subject.outcomes if o.left_out]
    if not missing:
        return ""
    codes = ", ".join(sorted({o.code for o in missing}))
    return f"{missing[0].words}: {codes}"


def forward_was_judged(subject: Judgement) -> bool:
    """Whether a reference spoke for forward, which backward may match and be wrong."""
    outcome = subject.outcome(_REFERENCE)
    return outcome is not None and outcome.status is Status.HELD


def sees_in_words(subject: Judgement) -> str:
    """The smallest relative error that would have been seen, for each input."""
    if not subject.resolution:
        return ""
    seen = {n: r for n, r in subject.resolution.items() if r < 1}
    if not seen:
        return "no error of the gradient would have been seen"
    return f"would have seen a relative error of {_by_input(seen)}"


def share(value: float) -> str:
    """A relative size as people read it: 2e-10, 0.1 %, 30 %."""
    if value < 1e-3:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{100 * value:.2g} %" if value < 1 else f"{100 * value:.0f} %"


def _by_input(resolution: Mapping[str, float]) -> str:
    if len(resolution) > _LISTED:
        worst = max(resolution, key=lambda name: resolution[name])
        others = f"less in {len(resolution) - 1} other inputs"
        return f"{share(resolution[worst])} in {worst}, {others}"
    grouped: dict[str, list[str]] = {}
    for name, smallest in resolution.items():
        grouped.setdefault(share(smallest), []).append(name)
    parts = [f"{size} in {', '.join(names)}" for size, names in grouped.items()]
    return "; ".join(parts)


def _declared(subject: Judgement) -> str:
    outcome = subject.outcome("BP107")
    held = outcome is not None and outcome.status is Status.HELD
    return "backward is the gradient that was declared" if held else ""


def _said(subject: Judgement) -> str:
    """Why there is no resolution, such as a forward that is piecewise constant."""
    outcome = subject.outcome("BP101")
    return outcome.words if outcome is not None else ""


def _set_aside(subject: Judgement) -> str:
    """The share of outputs or elements at kinks and beyond the finite."""
    shares = [
        float(value)
        for outcome in subject.outcomes
        for evidence in outcome.evidence
        if isinstance(value := evidence.numbers.get("share_set_aside"), (int, float))
    ]
    largest = max(shares, default=0.0)
    return f"{share(largest)} of the outputs set aside" if largest > 0 else ""


def _calls(calls: Mapping[str, int]) -> str:
    """How often forward and backward ran, the float64 stage included."""
    total: dict[str, int] = {}
    for key, number in calls.items():
        kind = key.removesuffix(_FLOAT64)
        total[kind] = total.get(kind, 0) + number
    words = " and ".join(f"{number} {kind}" for kind, number in total.items())
    return f"{words} calls" if words else ""
