"""Outcomes -> a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from backproof import codes
from backproof.records import Outcome, Severity, Status, Verdict

GRADIENT, DECLARED = "BP101", "BP107"
"""What a pass rests on: the gradient, or the one that was declared in its place."""

_SURROGATE = "BP106"


def fold_verdict(outcomes: Sequence[Outcome]) -> Verdict:
    """The verdict over all laws and cases; notes never count."""
    counted = [o for o in outcomes if not is_note(o.code)]
    status = [o.status for o in counted]
    if Status.CRASHED in status:
        return Verdict.CRASHED
    broken = {o.code for o in counted if o.status is Status.BROKEN}
    if broken - {_SURROGATE}:
        return Verdict.WRONG
    if broken:
        return Verdict.SURROGATE
    deciding = [o.status for o in counted if o.code in (GRADIENT, DECLARED)]
    if Status.INCONCLUSIVE in deciding:
        return Verdict.INCONCLUSIVE
    if Status.HELD not in deciding and any(o.left_out for o in counted):
        return Verdict.INCONCLUSIVE  # the laws that were asked do not speak for it
    return Verdict.PASS if Status.HELD in status else Verdict.INCONCLUSIVE


def is_note(code: str) -> bool:
    """Whether what is said under `code` never decides a verdict."""
    return codes.page(code).severity is Severity.NOTE
