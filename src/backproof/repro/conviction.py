"""A broken law while everything that was measured for it is still at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backproof.battery.examination import Examination
from backproof.battery.findings import backward_of
from backproof.function_class import is_torchs
from backproof.probe import coarsest
from backproof.records import Evidence, Location, Number, Outcome
from backproof.repro.origin import Origin
from backproof.repro.stage import Stage
from backproof.trial import Trial


@dataclass(frozen=True)
class Conviction:
    """One piece of evidence that breaks a law.

    Attributes:
        outcome: of the law.
        evidence: the piece.
        examination: of the subject on the case.
        origin: where the subject comes from.
    """

    outcome: Outcome
    evidence: Evidence
    examination: Examination
    origin: Origin

    @property
    def title(self) -> str:
        """The finding in a line."""
        return self.evidence.words.partition("\n")[0]

    @property
    def quotable(self) -> str:
        """The same as a part of any string in a script."""
        return self.title.translate(str.maketrans('"\\{}', "'/()"))

    @property
    def numbers(self) -> Mapping[str, Number]:
        """Those of the evidence."""
        return self.evidence.numbers

    @property
    def trial(self) -> Trial:
        """The subject on the case."""
        return self.examination.trial

    @property
    def where(self) -> Location | None:
        """The place in the user's file."""
        return self.evidence.where or backward_of(self.trial.subject)

    @property
    def own_backward(self) -> str:
        """The expression for the user's backward, of the `node` that stands for a call."""
        written = self.trial.subject.definition
        built = written is not None and not is_torchs(written)
        return f"type(node)._forward_cls{'.written_as' if built else ''}.backward"

    def stage(self, trial: Trial | None = None, **saved: Any) -> Stage:
        """The call, of the case itself or of another `trial` of the subject."""
        own = self.trial
        outputs = [o.name for o in own.outputs]
        other = None if trial is None or trial is own else own
        return Stage(trial or own, self.origin, outputs, dict(saved), other)

    def allowed(self) -> str:
        """What two runs may differ by, relative to an element: a number as text."""
        least = 64 * coarsest(self.trial.dtypes).eps
        known = self.numbers.get("allowed", 0.0)
        return (
            f"{max(least, float(known) if isinstance(known, (int, float)) else 0):.2g}"
        )
