"""Report: everything that one check found out, and what follows from it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from backproof.errors import BadInput, WrongGradient
from backproof.records import Finding, Judgement, Location, Severity, Verdict
from backproof.report.environment import Environment
from backproof.report.serial import judgement_from_dict, judgement_to_dict

SCHEMA = "backproof/1"

_ALWAYS_BAD = {Verdict.CRASHED, Verdict.WRONG}
_BAD_WHEN_STRICT = _ALWAYS_BAD | {Verdict.SURROGATE, Verdict.INCONCLUSIVE}


class Unchecked(NamedTuple):
    """A target that got no verdict, as the user would name it, and the reason."""

    target: str
    reason: str


@dataclass(frozen=True, repr=False, eq=False)
class Report:
    """Everything that one check found out.

    `print(report)` is the text that the command line shows. Two reports are equal when
    they say the same; NaN counts as equal to itself.

    Attributes:
        environment: versions, platform and seed.
        subjects: one judgement for each subject, in the order of checking.
        skipped: what a folder held that had nothing to check.
        failed: what was asked for and could not be run, with the message that says why.
    """

    environment: Environment
    subjects: tuple[Judgement, ...] = ()
    skipped: tuple[Unchecked, ...] = field(default=())
    failed: tuple[Unchecked, ...] = field(default=())

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its subjects; inconclusive where there are none."""
        verdicts = [subject.verdict for subject in self.subjects]
        return min(verdicts, key=lambda v: v.rank, default=Verdict.INCONCLUSIVE)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all subjects, errors before notes."""
        every = [f for subject in self.subjects for f in subject.findings]
        return tuple(sorted(every, key=lambda f: f.severity is Severity.NOTE))

    def exit_code(self, *, strict: bool = False) -> int:
        """What the command line ends with.

        1 if a law is broken or a subject crashed (`strict` adds undeclared surrogates
        and inconclusive subjects), else 2 if something could not be run or there was
        nothing to run, else 0.
        """
        bad = _BAD_WHEN_STRICT if strict else _ALWAYS_BAD
        if any(subject.verdict in bad for subject in self.subjects):
            return 1
        return 2 if self.failed or not self.subjects else 0

    def raise_if_wrong(self, *, strict: bool = False) -> Self:
        """Raise where the command line would end with 1; else return the report.

        Raises:
            WrongGradient: a law is broken or a subject crashed; with `strict` also for
                an undeclared surrogate or an inconclusive subject.
        """
        __tracebackhide__ = True  # pytest then shows the caller's line
        if self.exit_code(strict=strict) == 1:
            raise WrongGradient(str(self))
        return self

    def relative_to(self, folder: Path) -> Self:
        """The same report with the paths below `folder` written relative to it."""
        return dataclasses.replace(
            self, subjects=tuple(_relative(s, folder) for s in self.subjects)
        )

    def to_dict(self) -> dict[str, Any]:
        """The report in plain dictionaries and lists, as `schema.json` describes."""
        return {
            "schema": SCHEMA,
            "environment": dict(self.environment),
            "subjects": [judgement_to_dict(subject) for subject in self.subjects],
            "skipped": [unchecked._asdict() for unchecked in self.skipped],
            "failed": [unchecked._asdict() for unchecked in self.failed],
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """The report as JSON text; NaN and infinities are strings in it."""
        return json.dumps(
            self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises:
            BadInput: `data` is not a report of this version.
        """
        found = data.get("schema") if isinstance(data, Mapping) else None
        if found != SCHEMA:
            raise BadInput(f"not a report: its schema is {found!r}, not {SCHEMA!r}")
        try:
            return cls(
                environment=dict(data["environment"]),
                subjects=tuple(judgement_from_dict(s) for s in data["subjects"]),
                skipped=tuple(Unchecked(**u) for u in data["skipped"]),
                failed=tuple(Unchecked(**u) for u in data["failed"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            kind = type(error).__name__
            raise BadInput(f"not a whole report: {kind}: {error}") from error

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The inverse of `to_json`.

        Raises:
            BadInput: `text` is not JSON, or not a report of this version.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise BadInput(f"not a report: it is not JSON ({error})") from error
        return cls.from_dict(data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Report):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # it holds dictionaries

    def __str__(self) -> str:
        from backproof.report.terminal import text

        return text(self.relative_to(Path.cwd()))

    __repr__ = __str__  # what a shell or a notebook shows is what there is to read


def _relative(judgement: Judgement, folder: Path) -> Judgement:
    def shortened(file: str) -> str:
        path = Path(file)
        return str(path.relative_to(folder)) if path.is_relative_to(folder) else file

    def moved(where: Location | None) -> Location | None:
        return where and dataclasses.replace(where, file=shortened(where.file))

    return dataclasses.replace(
        judgement,
        file=shortened(judgement.file),
        outcomes=tuple(
            dataclasses.replace(
                outcome,
                evidence=tuple(
                    dataclasses.replace(e, where=moved(e.where))
                    for e in outcome.evidence
                ),
            )
            for outcome in judgement.outcomes
        ),
        findings=tuple(
            dataclasses.replace(finding, where=moved(finding.where))
            for finding in judgement.findings
        ),
    )
