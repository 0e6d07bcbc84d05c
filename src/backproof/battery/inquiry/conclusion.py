"""What an inquiry ends with."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import torch

from backproof.battery.inquiry.kinks import KinkView
from backproof.battery.inquiry.look import Comparison, Look
from backproof.battery.inquiry.single_input import InputView


class Kind(Enum):
    """What the inquiry concludes."""

    RIGHT = "right"
    WRONG = "wrong"
    STAIRCASE = "staircase"
    KINK = "kink"
    NOT_SMOOTH = "not smooth"
    STOCHASTIC = "stochastic"
    DOMAIN = "domain"
    UNDECIDED = "undecided"


@dataclass
class Conclusion:
    """What was found out about the gradient of one trial.

    Attributes:
        kind: the conclusion itself.
        words: why, where it is neither right nor wrong, and what would decide it.
        look: the look that it rests on, None where there was none.
        inputs: what each input showed alone, for those that were probed alone.
        wrong_inputs: the names of the inputs whose gradient is wrong.
        kinks: what the outputs at kinks showed, None where there are none.
        set_aside: the outputs most of which was set aside, and how much.
        inside: the type that forward computes in, where that is coarser than its inputs.
    """

    kind: Kind
    words: str = ""
    look: Look | None = None
    inputs: dict[str, InputView] = field(default_factory=dict)
    wrong_inputs: tuple[str, ...] = ()
    kinks: KinkView | None = None
    set_aside: dict[str, float] = field(default_factory=dict)
    inside: torch.dtype | None = None

    @property
    def worst(self) -> Comparison | None:
        """The comparison with the largest error in units of its bar."""
        every = list(self.look.comparisons) if self.look else []
        every += [view.comparison for view in self.inputs.values()]
        if self.kinks is not None:
            every += self.kinks.comparisons
        return max(every, key=_pull, default=None)


def _pull(comparison: Comparison) -> float:
    return abs(comparison.error) / max(comparison.bar, 1e-300)
