"""Report -> text for a terminal: a line for each subject, then what is wrong.

Pure functions. Nothing is said by colour alone: a bad verdict is in capitals, and the
text without colour is the text with colour minus its escape codes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from backproof.codes import page
from backproof.records import (
    Finding,
    Judgement,
    Location,
    Outcome,
    Severity,
    Status,
    Verdict,
)
from backproof.report.contexts import context_table
from backproof.report.evidence import every_outcome
from backproof.report.layout import Paint, wrapped
from backproof.report.report import Report, Unchecked
from backproof.report.resting import (
    forward_was_judged,
    left_out,
    rests_on,
    sees_in_words,
)

_INDENT = 14  # the longest verdict, "INCONCLUSIVE", and a gap of two
_DEEP = " " * 9  # under the title that follows a code
_NAME = 30  # names longer than this push their place to the right, alone
_ORDER = list(Verdict)
_PLAIN = Paint(on=False)


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
            details(subject, paint, width)
            for subject in report.subjects
            if subject.verdict is not Verdict.PASS
        ),
    ]
    blocks += [
        context_table(subject, paint, width, whole=verbose)
        for subject in report.subjects
    ]
    if verbose:
        blocks += [every_outcome(s, paint, width) for s in report.subjects]
    blocks += [
        _unchecked("could not run", report.failed, width),
        _unchecked("skipped", report.skipped, width),
        _blind(report, width),
        summary(report, paint) + (f"\n{_made(report, width)}" if verbose else ""),
    ]
    return "\n\n".join(block for block in blocks if block)


def _overview(report: Report, paint: Paint, width: int) -> str:
    if len(report.subjects) == 1 and report.verdict is not Verdict.PASS:
        return ""  # its details begin with the same line
    column = min(_NAME, max((len(s.name) for s in report.subjects), default=0))
    lines: list[str] = []
    for subject in report.subjects:
        lines.append(headline(subject, paint, column))
        if subject.verdict is Verdict.PASS:
            for line in _below_a_pass(subject):
                lines += wrapped(line, " " * _INDENT, width)
    return "\n".join(lines)


def headline(subject: Judgement, paint: Paint, column: int) -> str:
    """Verdict, name and place, the places of several one below the other."""
    word = _shown(subject.verdict)
    gap = " " * (_INDENT - len(word))
    place = _place(Location(subject.file, subject.line))
    named = f"{subject.name:<{column}}  {place}".rstrip()
    return f"{paint.verdict(subject.verdict, word)}{gap}{named}"


def _below_a_pass(subject: Judgement) -> Iterator[str]:
    """What a pass rests on, what stayed undecided, and the notes, a line each."""
    yield from rests_on(subject)
    for code in sorted({o.code for o in subject.outcomes if not o.left_out}):
        outcome = subject.outcome(code)
        if outcome is not None and outcome.status is Status.INCONCLUSIVE:
            yield f"{code} undecided: {_first_line(outcome.words)}"
    for finding in subject.findings:
        yield f"{finding.code} note: {_first_line(finding.title)}"


def details(subject: Judgement, paint: Paint, width: int) -> str:
    """Its headline, then every finding with place, remedy and numbers."""
    blocks = [_findings(subject, group, paint, width) for group in _grouped(subject)]
    blocks += [_outcome(outcome, paint, width) for outcome in _unexplained(subject)]
    if subject.verdict is Verdict.INCONCLUSIVE:
        blocks.append(wrapped(sees_in_words(subject), "  ", width))
        blocks.append(wrapped(left_out(subject), "  ", width))
    first = headline(subject, paint, column=len(subject.name))
    return "\n\n".join([first, *("\n".join(block) for block in blocks if block)])


def _grouped(subject: Judgement) -> list[list[Finding]]:
    """The findings, errors first, those with one place and one remedy together."""
    groups: dict[object, list[Finding]] = {}
    for finding in sorted(subject.findings, key=lambda f: f.severity is Severity.NOTE):
        key = (finding.code, finding.severity, finding.where, finding.remedy)
        groups.setdefault(key, []).append(finding)
    return list(groups.values())


def _findings(
    subject: Judgement, group: list[Finding], paint: Paint, width: int
) -> list[str]:
    """What, where and what to do, in this order; the numbers come after that."""
    first, *others = group
    note = first.severity is Severity.NOTE
    title = f"note: {first.title}" if note else first.title
    lines = wrapped(title, _DEEP, width, first=f"  {first.code}  ")
    lines[0] = lines[0].replace(first.code, paint.bold(first.code), 1)
    if first.where is not None:
        lines += _written_at(first.where, width)
    lines += wrapped(first.remedy, _DEEP, width)
    lines += wrapped(first.words, _DEEP, width)
    for other in others:
        lines += wrapped(f"also: {other.title}", _DEEP, width)
        lines += wrapped(_first_line(other.words), _DEEP, width)
    lines += wrapped(_on(subject, first.code), _DEEP, width)
    return lines + wrapped(f"more: backproof explain {first.code}", _DEEP, width)


def _written_at(where: Location, width: int) -> list[str]:
    """The place, and what is written there; code is not wrapped like prose."""
    place, text = f"{_DEEP}at {_place(where)}", f"`{where.text}`"
    if not where.text:
        return [place]
    together = f"{place}: {text}"
    return [together] if len(together) <= width else [f"{place}:", f"{_DEEP}  {text}"]


def _on(subject: Judgement, code: str) -> str:
    """With which inputs a law is broken, where it is not so with all."""
    bad = (Status.BROKEN, Status.CRASHED)
    mine = [o for o in subject.outcomes if o.code == code]
    broken = {o.case for o in mine if o.status in bad}
    others = {o.case for o in mine} - broken
    return f"with {', '.join(sorted(broken))} alone" if broken and others else ""


def _unexplained(subject: Judgement) -> Iterator[Outcome]:
    """The outcomes behind a verdict that no finding speaks of.

    An inconclusive law says in its words what would decide it.
    """
    explained = {finding.code for finding in subject.findings}
    telling = {Status.BROKEN, Status.CRASHED}
    if subject.verdict is Verdict.INCONCLUSIVE:
        telling = {Status.INCONCLUSIVE}
    asked = {o.code for o in subject.outcomes if not o.left_out}
    for code in sorted(asked - explained):
        outcome = subject.outcome(code)
        if outcome is not None and outcome.status in telling:
            yield outcome


def _outcome(outcome: Outcome, paint: Paint, width: int) -> list[str]:
    word = "undecided" if outcome.status is Status.INCONCLUSIVE else outcome.status
    law = outcome.law.rstrip(".")
    lines = wrapped(f"{word}: {law}", _DEEP, width, first=f"  {outcome.code}  ")
    lines[0] = lines[0].replace(outcome.code, paint.bold(outcome.code), 1)
    return lines + wrapped(outcome.words, _DEEP, width)


def _unchecked(title: str, entries: tuple[Unchecked, ...], width: int) -> str:
    lines = []
    for target, reason in entries:
        if "\n" in reason:
            lines += [f"{title}: {target}", *wrapped(reason, "  ", width)]
        else:
            lines += wrapped(f"{title}: {target}: {reason}", "  ", width, first="")
    return "\n".join(lines)


def _blind(report: Report, width: int) -> str:
    """What a pass cannot tell, said once for all."""
    passed = [s for s in report.subjects if s.verdict is Verdict.PASS]
    if not passed:
        return ""
    alone = [s.name for s in passed if not forward_was_judged(s)]
    if not alone:
        words = "A pass is blind to what subject and reference get wrong alike."
        return "\n".join(wrapped(words, "", width))
    of = f" of {', '.join(alone)}" if len(alone) < len(passed) else ""
    blind = page("BP101").blind
    words = (
        f"Forward{of} itself was not judged: no reference was given. A pass is blind "
        f"to: {blind[0].lower()}{blind[1:]}"
    )
    return "\n".join(wrapped(words, "", width))


def summary(report: Report, paint: Paint = _PLAIN) -> str:
    """How many subjects got each verdict, in a line."""
    counts = Counter(subject.verdict for subject in report.subjects)
    said = [
        paint.verdict(verdict, f"{counts[verdict]} {_shown(verdict)}")
        for verdict in reversed(_ORDER)
        if counts[verdict]
    ]
    besides = {"could not run": report.failed, "skipped": report.skipped}
    said += [f"{len(found)} {word}" for word, found in besides.items() if found]
    return ", ".join(said) or "nothing was checked"


def _made(report: Report, width: int) -> str:
    made = ", ".join(f"{k} {v}" for k, v in report.environment.items() if v is not None)
    return "\n".join(wrapped(made, "", width))


def _shown(verdict: Verdict) -> str:
    return verdict.value if verdict is Verdict.PASS else verdict.value.upper()


def _place(where: Location) -> str:
    if where.line is None:
        return where.file
    return f"{where.file}:{where.line}"


def _first_line(words: str) -> str:
    return words.strip().split("\n", 1)[0]
