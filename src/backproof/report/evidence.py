"""Every outcome of a subject with all of its evidence: what `--verbose` adds."""

from __future__ import annotations

from backproof.records import Evidence, Judgement, Number
from backproof.report.layout import Paint, wrapped

_MARKS = {True: "+", False: "-", None: "?"}


def every_outcome(subject: Judgement, paint: Paint, width: int) -> str:
    """The outcomes of `subject`, one after the other, in the order they were made."""
    lines = [f"evidence for {paint.bold(subject.name)}"]
    for outcome in subject.outcomes:
        head = f"{outcome.status.value}: {outcome.law.rstrip('.')} ({outcome.case})"
        lines += wrapped(head, " " * 9, width, first=f"  {outcome.code}  ")
        for evidence in outcome.evidence:
            lines += _evidence(evidence, width)
    return "\n".join(lines)


def _evidence(evidence: Evidence, width: int) -> list[str]:
    mark = f"{' ' * 9}{_MARKS[evidence.holds]} "
    lines = wrapped(evidence.words or "-", " " * 11, width, first=mark)
    numbers = ", ".join(f"{k} {_number(v)}" for k, v in evidence.numbers.items())
    return lines + wrapped(numbers, " " * 11, width)


def _number(value: Number) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (int, str)):
        return str(value)
    return f"[{', '.join(_number(item) for item in value)}]"
