"""Outcomes -> findings: what is wrong, where in the user's file, and what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from backproof import codes, dispatcher
from backproof.battery.code import code_of
from backproof.battery.verdict import is_note
from backproof.function_class import own_backward, own_method
from backproof.records import Finding, Location, Outcome, Severity, Status
from backproof.subject import Subject

_CRASH_REMEDY = (
    "Call it on the same inputs and let `.sum().backward()` raise it again: the "
    "traceback leads to the line."
)


def findings_of(subject: Subject, outcomes: Iterable[Outcome]) -> list[Finding]:
    """What `outcomes` say that somebody should act on; the same of two cases once."""
    found: list[Finding] = []
    for outcome in outcomes:
        note = is_note(outcome.code)
        wanted = (Status.HELD,) if note else (Status.BROKEN, Status.CRASHED)
        if outcome.status not in wanted:
            continue
        remedy = codes.page(outcome.code).remedy
        if outcome.status is Status.CRASHED:
            remedy = _CRASH_REMEDY
        for evidence in outcome.evidence:
            if evidence.holds is not note:
                continue
            title, _, rest = evidence.words.partition("\n")
            severity = Severity.NOTE if note else Severity.ERROR
            where = evidence.where or _rule_of(subject, outcome.code)
            finding = Finding(
                outcome.code, severity, title, rest, where, evidence.remedy or remedy
            )
            if all(f.title != title or f.code != outcome.code for f in found):
                found.append(finding)
    return found


_RULES = {
    **dict.fromkeys(("BP301", "BP304", "BP308", "BP309"), "vmap"),
    **dict.fromkeys(("BP305", "BP306"), "jvp"),
}
"""The rule of a Function that a transform uses, by the code of what it gets wrong."""


def _rule_of(subject: Subject, code: str) -> Location | None:
    """Where the rule behind `code` is written, where that is the Function's own."""
    name = _RULES.get(code)
    own = own_method(subject.definition, name) if name is not None else None
    place = _written_at(own) if own is not None else None
    if place is not None:
        return place
    return backward_of(subject)


def backward_of(subject: Subject) -> Location | None:
    """Where the subject's backward is written, its own place otherwise."""
    backward = None
    if subject.definition is not None:
        backward = own_backward(subject.definition)
    elif subject.operator is not None:
        backward = dispatcher.backward(subject.operator)
    if backward is None:
        return subject.where
    return _written_at(backward) or subject.where


def _written_at(function: Callable[..., Any]) -> Location | None:
    """The line of a function's `def`; of its first decorator where its text is hidden."""
    code = code_of(function)
    if code is not None:
        return code.head
    try:
        written = inspect.unwrap(function)
        file = inspect.getsourcefile(written)
        line = inspect.getsourcelines(written)[1]
    except (OSError, TypeError):
        return None
    return Location(file, line) if file else None
