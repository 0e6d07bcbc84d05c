"""Values of another call."""

from __future__ import annotations

import torch

from backproof.diagnosis.cause import Explanation, cause
from backproof.diagnosis.suspect import Suspect
from backproof.trial import BackwardRaised, Refused

_ELSEWHERE = 1.5  # times the inputs: another call, inside of most domains


@cause
def stale(suspect: Suspect) -> Explanation | None:
    """It changes when forward is called with other values in between."""
    trial, cotangent = suspect.trial, suspect.cotangents[0]
    elsewhere = [p.values * _ELSEWHERE for p in trial.points]
    suspect.budget.need(4)
    try:
        graph = trial.record([p.values for p in trial.points])
        before = trial.pull(graph, cotangent)[suspect.index]
        trial.record(elsewhere)
        after = trial.pull(graph, cotangent)[suspect.index]
        other = trial.pull(trial.record(elsewhere), cotangent)[suspect.index]
    except (Refused, BackwardRaised):
        return None
    if before is None or after is None or torch.equal(before, after):
        return None
    detail = ""
    if other is not None and torch.equal(other, after):
        detail = "it is then the gradient of that other call"
    return Explanation(
        "changes when forward is called with other values in between: backward reads "
        "what another call left",
        "Keep what backward needs on ctx (`save_for_backward`), not on the class, in a "
        "global or in a buffer that calls share.",
        detail=detail,
    )
