"""Where an input may go: bounds and structure that probing has to respect."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Structure = Literal["spd", "sym", "sorted", "simplex"]


@dataclass(frozen=True)
class Domain:
    """The open interval (low, high) for each element, and a structure of the whole.

    `spd` and `sym` are about the last two axes, `sorted` and `simplex` about the last.
    """

    low: float = -math.inf
    high: float = math.inf
    structure: Structure | None = None


ANYWHERE = Domain()
