"""One varied case."""

from __future__ import annotations

from dataclasses import dataclass

from backproof.trial import Trial


@dataclass(frozen=True)
class Variant:
    """A trial in another form.

    Attributes:
        words: what is different, after "with": "`x` transposed".
        trial: to run it.
        plain: what its numbers must agree with, where that is not the case itself.
        label: short, for a table: "transposed".
    """

    words: str
    trial: Trial
    plain: Trial | None = None
    label: str = ""
