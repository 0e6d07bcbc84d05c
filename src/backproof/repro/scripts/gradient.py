"""BP101 and BP110: the claim and the truth along one line, for one cotangent."""

from __future__ import annotations

from backproof.repro.conviction import Conviction
from backproof.repro.direction import accusation, directional
from backproof.repro.script import Script


def gradient(conviction: Conviction) -> Script:
    """Backward's claim beside a central difference, in the types that convicted."""
    examination = conviction.examination
    found = examination.gradient
    trial = examination.trial
    if found.decided_by is found.wide and examination.wide_trial is not None:
        trial = examination.wide_trial
    accused = accusation(trial, found.decided_by, examination.seed)
    return directional(conviction, conviction.stage(trial), accused)
