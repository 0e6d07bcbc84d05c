"""A page of the table: what a code means, read from its Markdown file.

The title is the law, one sentence in the present tense. A line below it says how
severe a finding is and who sees it. Then come two or three sentences on why it matters,
a module with exactly one mistake (`Wrong`) and its corrected twin (`Right`), one
sentence on what to do, and what the detectors of this code are blind to.
"""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import re
import textwrap
from dataclasses import dataclass
from importlib.resources.abc import Traversable

from backproof.errors import BadInput
from backproof.records import Severity

_FORM = re.compile(
    r"# (?P<code>BP\d{3}) · (?P<title>[^\n]+)\n\n"
    r"(?P<severity>error|note) · seen by (?P<seen_by>[a-z, ]+)\n\n"
    r"(?P<why>.+?)\n\n"
    r"## Wrong\n\n```python\n(?P<wrong>.+?)```\n\n"
    r"## Right\n\n```python\n(?P<right>.+?)```\n\n"
    r"## What to do\n\n(?P<remedy>.+?)\n\n"
    r"## Blind to\n\n(?P<blind>.+?)\n",
    re.DOTALL,
)


@dataclass(frozen=True)
class Page:
    """One code.

    Attributes:
        code: such as `BP101`.
        title: the law, one sentence in the present tense, without a full stop.
        seen_by: the detectors that can find it broken.
        severity: an error decides a verdict, a note never does.
        why: why it matters, in two or three sentences.
        wrong: a small module with exactly one mistake, which breaks this law.
        right: its corrected twin.
        remedy: what to do, one sentence.
        blind: what the detectors of this code cannot see.
    """

    code: str
    title: str
    seen_by: tuple[str, ...]
    severity: Severity
    why: str
    wrong: str
    right: str
    remedy: str
    blind: str


@functools.cache
def all_codes() -> tuple[str, ...]:
    """Every code that has a page, in order."""
    names = (entry.name for entry in _folder().iterdir())
    return tuple(
        sorted(n.removesuffix(".md") for n in names if re.fullmatch(r"BP\d{3}\.md", n))
    )


def page(code: str) -> Page:
    """The page of `code`; `bp101` and `101` are read as `BP101`.

    Raises:
        BadInput: there is no such code; the message names the nearest ones.
    """
    name = code.strip().upper()
    if name.isdigit():
        name = f"BP{name}"
    if name not in all_codes():
        raise BadInput(
            f"there is no code {code!r}; the nearest are {', '.join(_nearest(name))}"
        )
    return _read(name)


def as_text(page: Page, *, width: int = 80) -> str:
    """The page for a terminal, without colour; only code may be wider than `width`.

    What to do comes before the examples, since it is what a finding leads here for; the
    lines in which the two examples differ have a minus or a plus in the margin.
    """

    def prose(text: str) -> str:
        return textwrap.fill(text, width, break_on_hyphens=False)

    heading = textwrap.fill(
        f"{page.code}  {page.title}", width, subsequent_indent=" " * 7
    )
    return "\n\n".join(
        [
            f"{heading}\n{page.severity}, seen by {', '.join(page.seen_by)}",
            prose(page.why),
            prose(f"What to do: {page.remedy}"),
            f"Wrong:\n\n{_beside(page.wrong, page.right, '-')}",
            f"Right:\n\n{_beside(page.right, page.wrong, '+')}",
            prose(f"Blind to: {page.blind}"),
        ]
    )


def _beside(mine: str, other: str, mark: str) -> str:
    """An example, indented, with `mark` before the lines that the other has not."""
    lines, others = mine.splitlines(), other.splitlines()
    matcher = difflib.SequenceMatcher(None, lines, others, autojunk=False)
    same = {
        number
        for block in matcher.get_matching_blocks()
        for number in range(block.a, block.a + block.size)
    }
    return "\n".join(
        f"    {line}".rstrip() if k in same or not line else f"  {mark} {line}"
        for k, line in enumerate(lines)
    ).rstrip()


@functools.cache
def _read(code: str) -> Page:
    text = (_folder() / f"{code}.md").read_text(encoding="utf-8")
    found = _FORM.fullmatch(text)
    if found is None or found["code"] != code:
        raise ValueError(f"{code}.md does not have the form of a page of codes")
    return Page(
        code=code,
        title=found["title"],
        seen_by=tuple(found["seen_by"].split(", ")),
        severity=Severity(found["severity"]),
        why=_one_line(found["why"]),
        wrong=found["wrong"],
        right=found["right"],
        remedy=_one_line(found["remedy"]),
        blind=_one_line(found["blind"]),
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _nearest(wanted: str) -> list[str]:
    """Three codes: by number where `wanted` has one, else by a word of their titles."""
    digits = re.sub(r"\D", "", wanted)[:6]
    if digits:
        number = int(digits)
        close = sorted(all_codes(), key=lambda code: abs(int(code[2:]) - number))
        return sorted(close[:3])
    word = wanted.lower()
    named = [code for code in all_codes() if word and word in page(code).title.lower()]
    return named[:3] or difflib.get_close_matches(wanted, all_codes(), 3, 0.0)


def _folder() -> Traversable:
    return importlib.resources.files("backproof.codes")
