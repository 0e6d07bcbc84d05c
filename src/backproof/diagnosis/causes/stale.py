"""Values of another call."""

from __future__ import annotations

import torch
from torch import Tensor

from backproof.diagnosis.cause import Explanation, cause
from backproof.diagnosis.suspect import Suspect
from backproof.trial import BackwardRaised, Refused
from backproof.trial.elsewhere import elsewhere

_ROUNDING = 1e-4  # of a gradient: what another order of a sum may change


@cause
def stale(suspect: Suspect) -> Explanation | None:
    """It changes when forward is called with other values in between."""
    trial, cotangent, index = suspect.trial, suspect.cotangents[-1], suspect.index
    suspect.budget.need(2)
    try:
        graph = trial.record([p.values for p in trial.points])
        before = trial.pull(graph, cotangent)[index]
        again = trial.pull(graph, cotangent)[index]
        elsewhere(trial)  # which calls forward there
        after = trial.pull(graph, cotangent)[index]
    except (Refused, BackwardRaised):
        return None
    if before is None or again is None or after is None:
        return None
    if _apart(before, again):
        return Explanation(
            "is another one at each backward of one graph",
            "Leave what was saved as it is, keep no sum between calls, and draw no random "
            "numbers in backward.",
        )
    if torch.equal(again, after) or not torch.equal(before, again):
        return None  # the order of a sum that nobody fixes changes it too
    return Explanation(
        "changes when forward is called with other values in between: backward reads "
        "what another call left",
        "Keep what backward needs on ctx (`save_for_backward`), not on the class, in a "
        "global or in a buffer that calls share.",
    )


def _apart(one: Tensor, other: Tensor) -> bool:
    """Whether two gradients differ by more than the order of a sum."""
    return float((one - other).norm()) > _ROUNDING * float(one.norm())
