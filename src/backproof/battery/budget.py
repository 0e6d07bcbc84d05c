"""A budget for one subject: how much it may cost, and what is asked first for it.

A law is asked as a whole, so the last one may take a budget somewhat beyond its end.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from backproof.errors import BadInput

if TYPE_CHECKING:
    from backproof.battery.law import Law  # it needs torch, and the command line waits

_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "min": 60.0}
_CALLS = ("call", "calls")

BY_YIELD: tuple[str, ...] = (
    # Nothing else can be measured where these are broken.
    *("BP501", "BP502", "BP109"),
    # The verdict rests on these; what follows from their looks costs next to nothing.
    *("BP101", "BP107", "BP106", "BP110", "BP104", "BP108", "BP111"),
    # A call or two each.
    *("BP208", "BP203", "BP202", "BP506", "BP201", "BP602", "BP209", "BP204"),
    # Several calls for each fault more.
    *("BP206", "BP601", "BP205", "BP508", "BP102", "BP503", "BP103", "BP504", "BP505"),
    # They find what few others have.
    *("BP207", "BP701", "BP702"),
)
"""Codes in the order of the faults that each finds beyond those before it, for its cost.

Counted over the faults of a corpus of Functions; codes that are not here follow.
"""


@dataclass(frozen=True)
class Budget:
    """What checking one subject may cost: seconds, or forward and backward calls.

    Attributes:
        seconds: of wall time, None for any.
        calls: forward and backward calls together, None for any number.
    """

    seconds: float | None = None
    calls: int | None = None

    @classmethod
    def of(cls, given: str | float) -> Self:
        """`2` and `"2s"` are seconds, as are `"500ms"` and `"1 min"`; `"500 calls"`.

        Raises:
            BadInput: it is none of these, or nothing at all.
        """
        if isinstance(given, (int, float)) and 0 < given < math.inf:
            return cls(seconds=float(given))
        found = _FORM.fullmatch(str(given))
        number, unit = (float(found[1]), found[2].lower()) if found else (0.0, "")
        if number > 0 and unit in _SECONDS:
            return cls(seconds=number * _SECONDS[unit])
        if number >= 1 and number == int(number) and unit in _CALLS:
            return cls(calls=int(number))
        raise BadInput(
            f"a budget is a time such as 2s, 500ms or 1min, or a number such as "
            f'"500 calls", and not {given!r}'
        )

    def __str__(self) -> str:
        if self.calls is not None:
            return f"{self.calls} call{'' if self.calls == 1 else 's'}"
        return f"{self.seconds:g} s"


class Spending:
    """A budget that is being spent, from now on."""

    def __init__(self, budget: Budget | None) -> None:
        self.budget = budget
        self._start = time.perf_counter()

    def over(self, num_calls: int) -> bool:
        """Whether `num_calls` calls and the time since the start have used it up."""
        if self.budget is None:
            return False
        if self.budget.calls is not None:
            return num_calls >= self.budget.calls
        seconds = self.budget.seconds
        return seconds is not None and time.perf_counter() - self._start >= seconds


def by_yield(laws: Sequence[Law]) -> list[Law]:
    """`laws` in the order of what they find for a call."""
    place = {code: k for k, code in enumerate(BY_YIELD)}
    return sorted(laws, key=lambda one: place.get(one.code, len(place)))
