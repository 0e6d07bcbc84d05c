"""Judgements as plain dictionaries, the form in which they travel and are stored.

JSON has no NaN and no infinities, so those three are written as the strings "nan",
"inf" and "-inf" and read back as numbers; no measurement uses them as words. Every
sequence becomes a list on the way out and a tuple on the way in.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from backproof.records import (
    Evidence,
    Finding,
    Judgement,
    Location,
    Outcome,
    Severity,
    Status,
    Usage,
    Verdict,
)

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def judgement_to_dict(judgement: Judgement) -> dict[str, Any]:
    """`judgement` as the member of "subjects" that `schema.json` describes."""
    return {
        "name": judgement.name,
        "file": judgement.file,
        "line": judgement.line,
        "verdict": judgement.verdict.value,
        "resolution": _encoded(judgement.resolution),
        "calls": _encoded(judgement.calls),
        "contexts": {name: dict(said) for name, said in judgement.contexts.items()},
        "outcomes": [_outcome_to_dict(outcome) for outcome in judgement.outcomes],
        "findings": [_finding_to_dict(finding) for finding in judgement.findings],
        **_usage_to_dict(judgement.usage),
    }


def judgement_from_dict(data: Mapping[str, Any]) -> Judgement:
    """The inverse of `judgement_to_dict`."""
    return Judgement(
        name=data["name"],
        file=data["file"],
        line=data["line"],
        verdict=Verdict(data["verdict"]),
        resolution=_decoded(data["resolution"]),
        calls=_decoded(data["calls"]),
        contexts={name: dict(said) for name, said in data["contexts"].items()},
        outcomes=tuple(_outcome_from_dict(outcome) for outcome in data["outcomes"]),
        findings=tuple(_finding_from_dict(finding) for finding in data["findings"]),
        usage=_usage_from_dict(data.get("usage")),
    )


def _usage_to_dict(usage: Usage | None) -> dict[str, Any]:
    """Nothing at all where no program was watched."""
    if usage is None:
        return {}
    return {"usage": {**dataclasses.asdict(usage), "notes": list(usage.notes)}}


def _usage_from_dict(data: Mapping[str, Any] | None) -> Usage | None:
    return None if data is None else Usage(**{**data, "notes": tuple(data["notes"])})


def _outcome_to_dict(outcome: Outcome) -> dict[str, Any]:
    return {
        "code": outcome.code,
        "law": outcome.law,
        "case": outcome.case,
        "status": outcome.status.value,
        "evidence": [
            {
                "holds": e.holds,
                "words": e.words,
                "numbers": _encoded(e.numbers),
                "where": _location_to_dict(e.where),
                "remedy": e.remedy,
            }
            for e in outcome.evidence
        ],
    }


def _outcome_from_dict(data: Mapping[str, Any]) -> Outcome:
    return Outcome(
        code=data["code"],
        law=data["law"],
        case=data["case"],
        status=Status(data["status"]),
        evidence=tuple(
            Evidence(
                e["holds"],
                e["words"],
                _decoded(e["numbers"]),
                _location_from_dict(e.get("where")),
                e.get("remedy", ""),
            )
            for e in data["evidence"]
        ),
    )


def _finding_to_dict(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "title": finding.title,
        "words": finding.words,
        "where": _location_to_dict(finding.where),
        "remedy": finding.remedy,
    }


def _finding_from_dict(data: Mapping[str, Any]) -> Finding:
    return Finding(
        code=data["code"],
        severity=Severity(data["severity"]),
        title=data["title"],
        words=data["words"],
        where=_location_from_dict(data["where"]),
        remedy=data["remedy"],
    )


def _location_to_dict(where: Location | None) -> dict[str, Any] | None:
    if where is None:
        return None
    return {
        "file": where.file,
        "line": where.line,
        "column": where.column,
        "text": where.text,
    }


def _location_from_dict(data: Mapping[str, Any] | None) -> Location | None:
    if data is None:
        return None
    return Location(data["file"], data["line"], data["column"], data.get("text", ""))


def _encoded(value: Any) -> Any:
    """`value` in types that JSON has."""
    if isinstance(value, Mapping):
        return {str(key): _encoded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encoded(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if value is None or isinstance(value, (bool, int, float, str)):
        # NumPy's scalars are floats and ints too, and json would not write them all.
        return float(value) if isinstance(value, float) else value
    if hasattr(value, "item"):
        return _encoded(value.item())
    raise TypeError(f"evidence carries numbers and words, not {value!r}")


def _decoded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _decoded(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_decoded(item) for item in value)
    if isinstance(value, str):
        return _NOT_FINITE.get(value, value)
    return value
