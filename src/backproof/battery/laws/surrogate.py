"""BP106: what is not a derivative says what it is."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.battery.examination import Examination
from backproof.battery.inquiry import Kind
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places
from backproof.records import Evidence, broken


@law("BP106")
def surrogate(examination: Examination) -> Iterator[Evidence]:
    """An op whose forward is piecewise constant declares the gradient that it means.

    Cost: none beside BP101's.
    Blind to: stairs finer than a few units in the last place of the inputs.
    """
    if examination.trial.subject.declared:
        raise NotApplicable("its gradient is declared: see BP107")
    if examination.gradient.kind is not Kind.STAIRCASE:
        raise NotApplicable("forward is not piecewise constant")
    yield broken(
        "forward is piecewise constant, backward is not zero, and nothing is declared\n"
        "its true derivative is zero, so this gradient is a surrogate; whether it is the "
        "one that is meant cannot be checked",
        where=Places(examination.trial).returned(),
        remedy="Declare the gradient that is meant: `EXPECT(cotangent, *inputs)` in the "
        "file, or `expect=` a soft function whose derivative it is.",
    )
