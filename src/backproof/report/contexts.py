"""The context table of a subject: in which ways of running it can be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from backproof.records import Judgement
from backproof.report.layout import Paint, wrapped

_SAID = {  # in the order in which they are shown; how many of them, and in the table
    "right": ("right", "right"),
    "wrong": ("WRONG", "WRONG"),
    "refuses": ("refuse", "refuses"),
    "torch": ("torch's own fault", "torch"),
    "not_applicable": ("not applicable", "n/a"),
    "skipped": ("skipped", "skipped"),
}
_INDENT = 11  # the longest word of the table, and gaps of two before and after


def context_table(subject: Judgement, paint: Paint, width: int, *, whole: bool) -> str:
    """The cells that are not right, those with the same words together; empty without.

    Args:
        subject: whose contexts.
        paint: adds colour, or does not.
        width: columns.
        whole: every cell, one by one and with all of its words.
    """
    if not subject.contexts:
        return ""
    head = f"contexts of {subject.name}: {counted(subject.contexts)}"
    lines = [*wrapped(head, "  ", width, first="")]
    lines[0] = lines[0].replace(subject.name, paint.bold(subject.name), 1)
    for status, names, words in _rows(subject.contexts, whole=whole):
        first = f"  {_SAID[status][1]:<{_INDENT - 2}}"
        lines += wrapped(", ".join(names), " " * _INDENT, width, first=first)
        for line in words:
            lines += wrapped(line, " " * (_INDENT + 2), width)
    return "\n".join(lines)


def counted(contexts: Mapping[str, Mapping[str, str]]) -> str:
    """How many are right, refuse and so on, in a line."""
    counts = Counter(said["status"] for said in contexts.values())
    return ", ".join(f"{counts[s]} {_SAID[s][0]}" for s in _SAID if counts[s])


def _rows(
    contexts: Mapping[str, Mapping[str, str]], *, whole: bool
) -> Iterator[tuple[str, list[str], tuple[str, ...]]]:
    """(status, names, lines of words), the worst first among those that are not right."""
    grouped: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, said in contexts.items():
        lines = tuple(said["words"].splitlines())
        if whole:
            yield said["status"], [name], lines
        elif said["status"] != "right":
            # What is off, and what follows from it.
            brief = lines if len(lines) <= 2 else (lines[0], lines[-1])
            grouped.setdefault((said["status"], brief), []).append(name)
    for status in _SAID:
        for (found, lines), names in grouped.items():
            if found == status:
                yield status, names, lines
