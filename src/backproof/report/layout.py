"""Lines and colours for a terminal."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from backproof.records import Verdict

_COLOURS = {  # ANSI codes of the sixteen that every terminal has
    Verdict.CRASHED: "1;31",
    Verdict.WRONG: "1;31",
    Verdict.SURROGATE: "33",
    Verdict.INCONCLUSIVE: "33",
    Verdict.PASS: "32",
}


@dataclass(frozen=True)
class Paint:
    """Adds escape codes, or does not."""

    on: bool

    def verdict(self, verdict: Verdict, words: str) -> str:
        """`words` in the colour of `verdict`."""
        return self._coded(_COLOURS[verdict], words)

    def bold(self, words: str) -> str:
        """`words`, stronger."""
        return self._coded("1", words)

    def _coded(self, code: str, words: str) -> str:
        return f"\x1b[{code}m{words}\x1b[0m" if self.on else words


def wrapped(
    words: str, indent: str, width: int, *, first: str | None = None
) -> list[str]:
    """`words` in lines of at most `width`, the later ones under `indent`.

    Lines that fit are kept as they are, with their inner spacing: many are aligned by
    hand. `first` stands before the first line in place of the indent. No words give no
    lines.
    """
    lines: list[str] = []
    for line in words.rstrip().splitlines():
        lead = indent if first is None or lines else first
        if len(lead) + len(line) <= width:
            lines.append((lead + line).rstrip())
            continue
        own = indent + " " * (len(line) - len(line.lstrip()))
        begin = own if lead == indent else lead
        lines += textwrap.wrap(
            line.strip(),
            width,
            initial_indent=begin,
            subsequent_indent=own,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines
