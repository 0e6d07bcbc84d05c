"""Report -> text for a terminal: a line for each subject, then what is wrong.

Pure functions. Nothing is said by colour alone: a bad verdict is in capitals, and the
text without colour is the text with colour minus its escape codes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from backproof.records import (
    Finding,
    Judgement,
    Location,
    Outcome,
    Severity,
    Status,
    Verdict,
)
from backproof.report.evidence import every_outcome
from backproof.report.layout import Paint, wrapped
from backproof.report.report import Report, Unchecked
from backproof.report.resting import rests_on, sees_in_words

_INDENT = 14  # the longest verdict, "INCONCLUSIVE", and a gap of two
_DEEP = " " * 9  # under the title that follows a code
_NAME = 30  # names longer than this push their place to the right, alone
_ORDER = list(Verdict)


def text(
    report: Report, *, verbose: bool = False, width: int = 80, colour: bool = False
) -> str:
    """The whole report, without a line break at its end.

    Args:
        report: what to show.
        verbose: also every outcome with all of its evidence, and the environment.
        width: columns; only a single word that is longer than a line goes beyond.
        colour: whether to add ANSI escape codes.
    """
    paint = Paint(on=colour)
    blocks = [
        _overview(report, paint, width),
        *(
            _details(subject, paint, width)
            for subject in report.subjects
            if subject.verdict is not Verdict.PASS
        ),
    ]
    if verbose:
        blocks += [every_outcome(s, paint, width) for s in report.subjects]
    blocks += [
        _unchecked("could not run", report.failed, width),
        _unchecked("skipped", report.skipped, width),
        _summary(report, paint, width, verbose=verbose),
    ]
    return "\n\n".join(block for block in blocks if block)


def _overview(report: Report, paint: Paint, width: int) -> str:
    if len(report.subjects) == 1 and report.verdict is not Verdict.PASS:
        return ""  # its details begin with the same line
    column = min(_NAME, max((len(s.name) for s in report.subjects), default=0))
    lines: list[str] = []
    for subject in report.subjects:
        lines.append(_headline(subject, paint, column))
        if subject.verdict is Verdict.PASS:
            for line in _below_a_pass(subject):
                lines += wrapped(line, " " * _INDENT, width)
    return "\n".join(lines)


def _headline(subject: Judgement, paint: Paint, column: int) -> str:
    word = _shown(subject.verdict)
    place = _place(Location(subject.file, subject.line))
    gap = " " * (_INDENT - len(word))
    return (
        f"{paint.verdict(subject.verdict, word)}{gap}{subject.name:<{column}}  {place}"
    )


def _below_a_pass(subject: Judgement) -> Iterator[str]:
    """What a pass rests on, what stayed undecided, and the notes, a line each."""
    yield from rests_on(subject)
    for code in sorted({o.code for o in subject.outcomes}):
        outcome = subject.outcome(code)
        if outcome is not None and outcome.status is Status.INCONCLUSIVE:
            yield f"{code} undecided: {_first_line(outcome.words)}"
    for finding in subject.findings:
        yield f"{finding.code} note: {_first_line(finding.title)}"


def _details(subject: Judgement, paint: Paint, width: int) -> str:
    errors = [f for f in subject.findings if f.severity is Severity.ERROR]
    notes = [f for f in subject.findings if f.severity is Severity.NOTE]
    blocks = [_finding(finding, paint, width) for finding in errors]
    blocks += [_outcome(outcome, paint, width) for outcome in _unexplained(subject)]
    blocks += [_finding(finding, paint, width, note=True) for finding in notes]
    if subject.verdict is Verdict.INCONCLUSIVE:
        blocks.append(wrapped(sees_in_words(subject), "  ", width))
    headline = _headline(subject, paint, column=len(subject.name))
    return "\n\n".join([headline, *("\n".join(block) for block in blocks if block)])


def _finding(
    finding: Finding, paint: Paint, width: int, *, note: bool = False
) -> list[str]:
    title = f"note: {finding.title}" if note else finding.title
    lines = wrapped(title, _DEEP, width, first=f"  {finding.code}  ")
    lines[0] = lines[0].replace(finding.code, paint.bold(finding.code), 1)
    lines += wrapped(finding.words, _DEEP, width)
    if finding.where is not None:
        lines += wrapped(f"at {_place(finding.where)}", _DEEP, width)
    lines += wrapped(finding.remedy, _DEEP, width)
    lines += wrapped(f"more: backproof explain {finding.code}", _DEEP, width)
    return lines


def _unexplained(subject: Judgement) -> Iterator[Outcome]:
    """The outcomes behind a verdict that no finding speaks of.

    An inconclusive law says in its words what would decide it.
    """
    explained = {finding.code for finding in subject.findings}
    telling = {Status.BROKEN, Status.CRASHED}
    if subject.verdict is Verdict.INCONCLUSIVE:
        telling = {Status.INCONCLUSIVE}
    for code in sorted({o.code for o in subject.outcomes} - explained):
        outcome = subject.outcome(code)
        if outcome is not None and outcome.status in telling:
            yield outcome


def _outcome(outcome: Outcome, paint: Paint, width: int) -> list[str]:
    word = "undecided" if outcome.status is Status.INCONCLUSIVE else outcome.status
    lines = wrapped(f"{word}: {outcome.law}", _DEEP, width, first=f"  {outcome.code}  ")
    lines[0] = lines[0].replace(outcome.code, paint.bold(outcome.code), 1)
    return lines + wrapped(outcome.words, _DEEP, width)


def _unchecked(title: str, entries: tuple[Unchecked, ...], width: int) -> str:
    lines = []
    for target, reason in entries:
        lines += wrapped(target, " " * _INDENT, width, first=f"{title:<{_INDENT}}")
        lines += wrapped(reason, " " * _INDENT, width)
    return "\n".join(lines)


def _summary(report: Report, paint: Paint, width: int, *, verbose: bool) -> str:
    counts = Counter(subject.verdict for subject in report.subjects)
    said = [
        paint.verdict(verdict, f"{counts[verdict]} {_shown(verdict)}")
        for verdict in reversed(_ORDER)
        if counts[verdict]
    ]
    said += [
        f"{len(entries)} {word}"
        for word, entries in [
            ("could not run", report.failed),
            ("skipped", report.skipped),
        ]
        if entries
    ]
    line = ", ".join(said) or "nothing was checked"
    if not verbose:
        return line
    made = ", ".join(f"{k} {v}" for k, v in report.environment.items() if v is not None)
    return "\n".join([line, *wrapped(made, "", width)])


def _shown(verdict: Verdict) -> str:
    return verdict.value if verdict is Verdict.PASS else verdict.value.upper()


def _place(where: Location) -> str:
    if where.line is None:
        return where.file
    return f"{where.file}:{where.line}"


def _first_line(words: str) -> str:
    return words.strip().split("\n", 1)[0]
