"""Report of a watched program -> text: a line for each Function, then what is wrong.

Pure functions, as in `terminal`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from backproof.records import Judgement, Severity, Status, Verdict
from backproof.report.layout import Paint, wrapped
from backproof.report.report import Report
from backproof.report.terminal import details, headline, summary

_INDENT = " " * 14  # below the name
_NAME = 30
_REASONS = 2  # of calls that could not be kept, the commonest
_NOTHING = (
    "no custom Function was called. Those of torch itself, nodes written in C++ and what "
    "runs only compiled are not seen"
)


def audited(
    report: Report,
    *,
    width: int = 80,
    colour: bool = False,
    accepted: Collection[tuple[str, str]] = (),
    title: bool = True,
) -> str:
    """The whole of it, without a line break at its end.

    Args:
        report: of a watched program: its subjects have a usage.
        width: columns.
        colour: whether to add ANSI escape codes.
        accepted: (name, file) of the Functions whose findings are known and accepted.
        title: whether to begin with a line that says what this is.
    """
    paint = Paint(on=colour)
    if not report.subjects:
        return "\n".join(wrapped(f"backproof: {_NOTHING}", "", width))
    blocks = ["backproof: the custom Functions that ran"] if title else []
    blocks += [
        "\n".join(_group(package, members, paint, width, accepted))
        for package, members in _by_package(report)
    ]
    shown = (Verdict.CRASHED, Verdict.WRONG)
    blocks += [
        details(subject, paint, width)
        for subject in report.subjects
        if subject.verdict in shown and _key(subject) not in accepted
    ]
    blocks += [
        "\n".join(wrapped(f"could not run: {target}: {reason}", "  ", width, first=""))
        for target, reason in report.failed
    ]
    blocks.append(summary(report, paint))
    return "\n\n".join(blocks)


def first_finding(subject: Judgement) -> str:
    """The code and title of the first finding, or why there is no verdict, in a line."""
    errors = [f for f in subject.findings if f.severity is Severity.ERROR]
    if subject.verdict is not Verdict.SURROGATE:  # it is not what the verdict rests on
        errors.sort(key=lambda finding: finding.code == "BP106")
    if errors:
        return f"{errors[0].code}  {errors[0].title}"
    if subject.verdict is Verdict.INCONCLUSIVE:
        for outcome in subject.outcomes:
            if outcome.status is Status.INCONCLUSIVE and not outcome.left_out:
                return outcome.words.partition("\n")[0]
        return next((o.words for o in subject.outcomes if o.left_out), "")
    return ""


def _key(subject: Judgement) -> tuple[str, str]:
    return subject.name, subject.file


def _by_package(report: Report) -> list[tuple[str, list[Judgement]]]:
    """The program's own first, then those of each installed package."""
    groups: dict[str, list[Judgement]] = {}
    for subject in sorted(report.subjects, key=lambda one: one.verdict.rank):
        package = subject.usage.package if subject.usage else ""
        groups.setdefault(package, []).append(subject)
    return sorted(groups.items())


def _group(
    package: str,
    members: list[Judgement],
    paint: Paint,
    width: int,
    accepted: Collection[tuple[str, str]],
) -> Iterator[str]:
    if package:
        yield f"in the package {package}:"
    column = min(_NAME, max(len(one.name) for one in members))
    for subject in members:
        yield headline(subject, paint, column)
        yield from wrapped(_used(subject), _INDENT, width)
        finding = first_finding(subject)
        if _key(subject) in accepted:
            finding = f"accepted: {finding}"
        yield from wrapped(finding, _INDENT, width)
        for note in subject.usage.notes if subject.usage else ():
            yield from wrapped(note, _INDENT, width)
        if subject.verdict is Verdict.SURROGATE:
            yield from wrapped(_surrogate(subject), _INDENT, width)


def _used(subject: Judgement) -> str:
    usage = subject.usage
    if usage is None or not usage.calls:
        return ""
    calls = f"{usage.calls:,} call{'' if usage.calls == 1 else 's'}"
    said = f"{calls}, {usage.checked} of {usage.signatures:,} signatures checked"
    if usage.signatures == 1:
        said = f"{calls} of one signature{'' if usage.checked else ', not checked'}"
    lost = sorted(usage.unrecorded.items(), key=lambda pair: -pair[1])
    reasons = [f"{number:,} not kept: {reason}" for reason, number in lost]
    return "; ".join([said, *reasons[:_REASONS]])


def _surrogate(subject: Judgement) -> str:
    """The line that would declare it."""
    finding = next((f for f in subject.findings if f.code == "BP106"), None)
    return finding.remedy if finding is not None else ""
