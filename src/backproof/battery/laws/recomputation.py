"""BP207: what backward computes again is what forward computed."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.battery.observed import drawn_in_backward
from backproof.battery.place import Places
from backproof.records import Evidence, broken, held
from backproof.trial import BackwardRaised

_OTHER = 1  # added to the seed: backward runs from another random state than forward


@law("BP207")
def recomputation(examination: Examination) -> Iterator[Evidence]:
    """Recomputation replays forward's random numbers.

    Between forward and backward of a training step the random state moves on, so
    backward is run from another one than forward.

    Cost: 2 forwards and 2 backwards.
    Blind to: autocast and grad mode, which the contexts `autocast` and `checkpoint_*` see.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    trial, base = examination.trial, examination.base
    if not examination.is_random:
        raise NotApplicable("forward draws no random numbers: see BP601")
    graph = trial.record()
    own = trial.pull(graph, base.cotangent)
    try:
        got = trial.pull(graph, base.cotangent, seed=trial.seed + _OTHER)
    except BackwardRaised as error:
        raise NotApplicable("backward raises from another random state") from error
    found = examination.yardstick.gradients(got, own)
    if found.is_real:
        drawn = drawn_in_backward(trial, base.cotangent)
        by = f" ({drawn.name})" if drawn is not None else ""
        yield broken(
            f"backward draws random numbers anew{by} instead of replaying forward's\n"
            "forward is random, and when the random state has moved on in between "
            f"`{found.name}` gets {found.words}",
            found.numbers,
            where=drawn.where if drawn else Places(trial).gradient(found.name),
            remedy="Save what forward drew (the mask), or the generator's state, and use "
            "that in backward.",
        )
    else:
        yield held("the gradient is the same from another random state")
