"""Snapshots of what people read: plain text files, one a message.

A test asks for `shown` and hands it a report and the name of a snapshot. Numbers that
depend on the machine are masked. To accept what is printed now:

    BACKPROOF_ACCEPT=1 pytest tests/messages
"""

import os
import re
from pathlib import Path

import pytest

from backproof.report.terminal import text

SNAPSHOTS = Path(__file__).parent / "snapshots"
ACCEPT = "BACKPROOF_ACCEPT=1 pytest tests/messages"

BAR = re.compile(r"± [\d.e+-]+")
TINY = re.compile(r"\b\d+(\.\d+)?e-\d+\b")
DIGITS = re.compile(r"(?<![\w.])\d+\.\d{2,}(e\+\d+)?|(?<![\w.,])\d{4,}\.\d+")
SIDES = re.compile(r"(backward claims|forward moves by|apart by) +\S+")
ADDRESS = re.compile(r"0x[0-9a-f]+")


def masked(shown):
    """The text without what differs from machine to machine.

    Error bars and what is as small as rounding vanish, other numbers keep three digits.
    """
    shown = BAR.sub("± …", shown)
    shown = TINY.sub("tiny", shown)
    shown = ADDRESS.sub("0x…", shown)
    return DIGITS.sub(lambda found: f"{float(found[0]):.3g}", shown)


def compare(name, shown):
    """Hold a text against the snapshot of that name, or accept it."""
    file = SNAPSHOTS / f"{name}.txt"
    shown = masked(shown).rstrip() + "\n"
    if os.environ.get("BACKPROOF_ACCEPT"):
        file.write_text(shown, encoding="utf-8")
    expected = file.read_text(encoding="utf-8") if file.exists() else ""
    assert shown == expected, f"another message; if it is the better one: {ACCEPT}"


@pytest.fixture
def shown(tmp_path):
    """shown(name, report): the report, with files named from `tmp_path` on.

    With `any_direction` the numbers of the direction that is shown are left out: which of
    several shows most may hang on a rounding.
    """

    def show(name, report, *, any_direction=False):
        words = text(report.relative_to(tmp_path))
        compare(name, SIDES.sub(r"\1 …", words) if any_direction else words)

    return show
