"""Judgements of one subject, from several calls or processes -> one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from backproof.records import Finding, Judgement, Outcome, Status, Usage, Verdict
from backproof.report.report import Report

_BAD = (Verdict.CRASHED, Verdict.WRONG, Verdict.SURROGATE)
_JUDGED = ("BP101", "BP801")
_DECIDING = (*_JUDGED, "BP107")


def merged_reports(reports: Iterable[Report]) -> Report | None:
    """The reports of several processes as one; None where there is none.

    A Function is the same one where name and file are.
    """
    reports = list(reports)
    if not reports:
        return None
    by_function: dict[tuple[str, str], list[Judgement]] = {}
    for report in reports:
        for subject in report.subjects:
            by_function.setdefault((subject.name, subject.file), []).append(subject)
    subjects = [
        dataclasses.replace(together(same), usage=_added([one.usage for one in same]))
        for same in by_function.values()
    ]
    subjects.sort(key=lambda one: (one.usage.package if one.usage else "", one.name))
    failed = dict.fromkeys(entry for report in reports for entry in report.failed)
    skipped = dict.fromkeys(entry for report in reports for entry in report.skipped)
    return Report(
        reports[0].environment, tuple(subjects), tuple(skipped), tuple(failed)
    )


def together(judgements: Sequence[Judgement]) -> Judgement:
    """The worst of what was found; a pass of one call is not undone by another's doubt."""
    if len(judgements) == 1:
        return judgements[0]
    verdicts = [one.verdict for one in judgements]
    verdict = next((bad for bad in _BAD if bad in verdicts), None)
    if verdict is None:
        # Other laws that hold are no pass where the gradient was not judged.
        sure = any(one.verdict is Verdict.PASS and decides(one) for one in judgements)
        verdict = Verdict.PASS if sure else Verdict.INCONCLUSIVE
    resolution: dict[str, float] = {}
    calls: dict[str, int] = {}
    contexts: dict[str, Mapping[str, str]] = {}
    outcomes: list[Outcome] = []
    findings: list[Finding] = []
    for one in judgements:
        for name, value in one.resolution.items():
            resolution[name] = min(value, resolution.get(name, value))
        for name, number in one.calls.items():
            calls[name] = calls.get(name, 0) + number
        contexts.update(one.contexts)
        outcomes += one.outcomes
        known = {(f.code, f.where, f.severity) for f in findings}
        findings += [
            f for f in one.findings if (f.code, f.where, f.severity) not in known
        ]
    if verdict is Verdict.PASS:
        outcomes = [o for o in outcomes if not _is_doubt(o)]
    first = judgements[0]
    return Judgement(
        first.name,
        first.file,
        first.line,
        verdict,
        resolution,
        calls,
        contexts,
        tuple(outcomes),
        tuple(findings),
        first.usage,
    )


def decides(judgement: Judgement) -> bool:
    """Whether its verdict is one about the gradient, and not of other laws alone."""
    return any(outcome.code in _JUDGED for outcome in judgement.outcomes)


def _is_doubt(outcome: Outcome) -> bool:
    return outcome.code in _DECIDING and outcome.status is Status.INCONCLUSIVE


def _added(usages: Sequence[Usage | None]) -> Usage | None:
    known = [one for one in usages if one is not None]
    if not known:
        return None
    reasons: dict[str, int] = {}
    for one in known:
        for reason, number in one.unrecorded.items():
            reasons[reason] = reasons.get(reason, 0) + number
    return Usage(
        calls=sum(one.calls for one in known),
        # The same in most processes: to add would count them twice.
        signatures=max(one.signatures for one in known),
        checked=max(one.checked for one in known),
        package=known[0].package,
        unrecorded=reasons,
        notes=tuple(dict.fromkeys(note for one in known for note in one.notes)),
    )
