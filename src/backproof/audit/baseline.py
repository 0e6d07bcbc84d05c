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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from backproof.codes import all_codes
from backproof.errors import BadInput
from backproof.records import Judgement, Severity, Status, Verdict
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
    unknown = [key for key in table if key != "accepted"]
    given = table.get("accepted", [])
    if unknown or not isinstance(given, list):
        raise BadInput(
            f"baseline {path}: each entry begins with [[accepted]]"
            + (f", and {unknown[0]!r} is none" if unknown else "")
        )
    return [
        _entry(one, f"baseline {path}: entry {n}") for n, one in enumerate(given, 1)
    ]


def _entry(one: Any, place: str) -> Entry:
    if not isinstance(one, dict) or set(one) != set(_KEYS):
        raise BadInput(f"{place} must have {', '.join(_KEYS)}, and nothing else")
    for key in ("function", "file", "reason"):
        if not isinstance(one[key], str):
            raise BadInput(f"{place}: {key} is {one[key]!r}, and must be a string")
    codes = one["codes"]
    if not isinstance(codes, list) or not codes:
        raise BadInput(f"{place}: codes is {codes!r}, and must be a list of codes")
    for code in codes:
        if code not in all_codes():
            raise BadInput(f"{place}: there is no code {code!r}")
    return Entry(one["function"], one["file"], tuple(codes), one["reason"])


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
            gone = tuple(
                code
                for code in entry.codes
                if code not in codes and _was_asked(subject, code)
            )
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
    """A baseline file that accepts what `report` finds.

    Reasons that were given are kept, and so are entries of Functions that did not run.
    """
    entries = {(one.function, _posix(one.file)): one for one in before}
    for subject in report.subjects:
        key = (subject.name, _posix(subject.file))
        known = entries.get(key)
        codes = error_codes(subject)
        if codes and subject.verdict in (Verdict.CRASHED, Verdict.WRONG):
            entries[key] = Entry(*key, codes, known.reason if known else _NO_REASON)
        elif known is not None and _was_verified(subject):
            del entries[key]
    return "\n".join([_HEAD, *map(_written, entries.values())])


def _written(entry: Entry) -> str:
    # The strings and lists of JSON are TOML's too.
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in asdict(entry).items()
    ]
    return "\n".join(["[[accepted]]", *lines, ""])


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


def _was_asked(subject: Judgement, code: str) -> bool:
    """Whether its law could have found it again; a spent budget proves nothing."""
    outcome = subject.outcome(code)
    return outcome is not None and outcome.status is not Status.INCONCLUSIVE


def _posix(file: str) -> str:
    return Path(file).as_posix()
