"""BP108: at a kink, which side backward took."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places
from backproof.records import Evidence, held


@law("BP108")
def kink(examination: Examination) -> Iterator[Evidence]:
    """At a kink of forward, backward picks a subgradient between the one-sided derivatives.

    A note: it never decides the verdict; a claim outside of them breaks BP101.

    Cost: none beside BP101's.
    Blind to: kinks that no step of BP101 reaches across.
    """
    if examination.trial.subject.declared:
        raise NotApplicable("its gradient is declared: see BP107")
    found = examination.gradient
    # In 16 bits a bend within the step looks like a kink; float64 can tell.
    resting = found.wide or found.decided_by
    view = resting.kinks
    if view is None:
        raise NotApplicable("no output sits on a kink")
    total = view.num_outputs + view.num_elsewhere
    note = held(
        f"{view.num_outputs} of {total} outputs sit on a kink of forward: {view.words}",
        {"at_a_kink": view.num_outputs, "outputs": total},
    )
    yield dataclasses.replace(note, where=Places(examination.trial).returned())
