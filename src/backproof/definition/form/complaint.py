"""What a rule says, and the exception that it becomes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from backproof.definition.form.model import Form, Place
from backproof.errors import MalformedFunction
from backproof.inputs.raised import near
from backproof.report.layout import wrapped
from backproof.source import shown_file

_WIDTH = 80
_CODE = re.compile(r"`[^`]*`")
_UNBROKEN = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Complaint:
    """One mistake.

    Attributes:
        rule: a short name for it.
        claim: what is written against what has to be; it follows the class's name.
        at: where.
        words: more about it, and last what to write; a line each.
    """

    rule: str
    claim: str
    at: Place | None
    words: tuple[str, ...]


def refusal(form: Form, complaint: Complaint) -> MalformedFunction:
    """The exception: what is wrong, where, and what to write."""
    at = complaint.at
    lines = wrapped(f"{form.name}: {complaint.claim}", "  ", _WIDTH, first="")
    if at is not None:
        lines.append(f"  at {shown(at)}: `{at.text}`")
    for words in complaint.words:
        lines += _wrapped_around_code(words)
    return MalformedFunction(
        "\n".join(lines),
        file=None if at is None else at.file,
        line=None if at is None else at.line,
        rule=complaint.rule,
    )


def _wrapped_around_code(words: str) -> list[str]:
    """`words` in lines; what is to be copied stays on one."""
    joined = _CODE.sub(lambda found: found[0].replace(" ", _UNBROKEN), words)
    return [one.replace(_UNBROKEN, " ") for one in wrapped(joined, "  ", _WIDTH)]


def shown(place: Place) -> str:
    """`kernels/swish.py:14`."""
    return f"{near(shown_file(place.file))}:{place.line}"


def seen_at(place: Place | None) -> str:
    """` (kernels/swish.py:6)`, to follow a name; nothing where no line is known."""
    return "" if place is None else f" ({shown(place)})"


def counted(count: int, noun: str) -> str:
    """`1 gradient`, `2 gradients`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(names: tuple[str, ...]) -> str:
    """`x, beta`, or that there is nothing."""
    return ", ".join(names) or "nothing"
