"""The ledger of what is known and accepted: findings that do not fail a run.

    [[accepted]]
    function = "GradientReversal"
    file = "model.py"
    codes = ["BP101"]
    reason = "negated on purpose: adversarial training"

An entry that is no longer true has to go, or it would hide the next fault of that
Function. Imports no torch.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from backproof.errors import BadInput
from backproof.records import Judgement, Severity, Verdict
from backproof.report import Report

_HEAD = """\
# Findings of backproof that are known and accepted: they do not fail a run. Give each a
# reason. An entry whose Function ran and no longer has the findings must be removed.
"""
_NO_REASON = "not examined yet"
_KEYS = ("function", "file", "codes", "reason")


@dataclass(frozen=True)
class Entry:
    """One Function whose findings of these codes are accepted, and why."""

    function: str
    file: str
    codes: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Held:
    """A report against a baseline.

    Attributes:
        accepted: (name, file) of Functions all of whose findings are accepted.
        fixed: entries, or codes of them, that are no longer true.
        failing: what fails the run: judgements that are not accepted.
    """

    accepted: frozenset[tuple[str, str]]
    fixed: tuple[Entry, ...]
    failing: tuple[Judgement, ...]


def read(path: Path) -> list[Entry]:
    """The entries of a baseline file.

    Raises:
        BadInput: it is not there, or is no baseline.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadInput(
            f"baseline {path}: there is no such file; write it from what is found now "
            "with --backproof-accept (pytest) or --accept (backproof audit)"
        ) from error
    except (OSError, ValueError) as error:
        raise BadInput(f"baseline {path}: {error}") from error
    entries = []
    for number, one in enumerate(table.get("accepted", []), start=1):
        missing = [key for key in _KEYS if key not in one]
        if missing:
            raise BadInput(
                f"baseline {path}: entry {number} lacks {', '.join(missing)}; an entry "
                f"has {', '.join(_KEYS)}"
            )
        entries.append(
            Entry(one["function"], one["file"], tuple(one["codes"]), one["reason"])
        )
    return entries


def hold(report: Report, entries: Iterable[Entry]) -> Held:
    """What of `report` is accepted, what is fixed, and what is left."""
    known = {(one.function, _posix(one.file)): one for one in entries}
    accepted: set[tuple[str, str]] = set()
    fixed: list[Entry] = []
    failing: list[Judgement] = []
    for subject in report.subjects:
        entry = known.get((subject.name, _posix(subject.file)))
        codes = error_codes(subject)
        if entry is not None and _was_verified(subject):
            gone = tuple(code for code in entry.codes if code not in codes)
            if gone:
                fixed.append(replace(entry, codes=gone))
        if subject.verdict not in (Verdict.CRASHED, Verdict.WRONG, Verdict.SURROGATE):
            continue
        if entry is not None and set(codes) <= set(entry.codes):
            accepted.add((subject.name, subject.file))
        elif subject.verdict is not Verdict.SURROGATE:
            failing.append(subject)
    return Held(frozenset(accepted), tuple(fixed), tuple(failing))


def of(report: Report, before: Iterable[Entry] = ()) -> str:
    """A baseline file that accepts what `report` finds; known reasons are kept."""
    reasons = {(one.function, _posix(one.file)): one.reason for one in before}
    blocks = [_HEAD]
    for subject in report.subjects:
        codes = error_codes(subject)
        if not codes or subject.verdict not in (Verdict.CRASHED, Verdict.WRONG):
            continue
        key = (subject.name, _posix(subject.file))
        pairs = {
            "function": subject.name,
            "file": key[1],
            "codes": list(codes),
            "reason": reasons.get(key, _NO_REASON),
        }
        # The strings and lists of JSON are TOML's too.
        lines = [f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in pairs.items()]
        blocks.append("\n".join(["[[accepted]]", *lines, ""]))
    return "\n".join(blocks)


def error_codes(subject: Judgement) -> tuple[str, ...]:
    """The codes of its findings that are no notes, each once."""
    found = [f.code for f in subject.findings if f.severity is Severity.ERROR]
    return tuple(dict.fromkeys(found))


def in_words(entry: Entry, path: Path) -> str:
    """What to do about an entry that is no longer true."""
    codes = ", ".join(entry.codes)
    return (
        f"{entry.function} ({entry.file}) no longer has {codes}: remove it from {path}"
    )


def _was_verified(subject: Judgement) -> bool:
    return subject.verdict is not Verdict.INCONCLUSIVE


def _posix(file: str) -> str:
    return Path(file).as_posix()
