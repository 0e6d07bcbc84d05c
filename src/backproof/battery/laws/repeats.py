"""BP601: the same call gives the same numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from backproof.battery.difference import Difference
from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.battery.observed import drawn_in_backward
from backproof.battery.place import Places
from backproof.records import Evidence, broken, held
from backproof.trial import BackwardRaised, Trial

_REPEATS = 2
_OTHER = 1  # added to the seed
_UNINITIALISED = 1e-3  # of an element: more is no order of summation


@law("BP601")
def repeats(examination: Examination) -> Iterator[Evidence]:
    """Forward and backward repeat, or within the noise that is declared.

    A few roundings are let pass: kernels round by the alignment of their buffers, and
    atomic additions by their order. A forward that draws no random numbers must not have
    a backward that does, be it in the last digit.

    Cost: 3 forwards and 3 backwards.
    Blind to: rare races, and orders of execution that this machine does not produce.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    trial, base = examination.trial, examination.base
    for _ in range(_REPEATS):
        graph = trial.record()
        values = examination.yardstick.values(
            graph.values, base.graph.values, sensitive=_atomic(trial)
        )
        evidence = _judged(examination, values, "forward")
        yield evidence
        if evidence.holds is False:
            return  # and backward cannot repeat what forward does not
        found = trial.pull(graph, base.cotangent)
        yield _judged(examination, _gap(examination, found), "backward")
    if examination.is_random:
        return
    try:
        found = trial.pull(graph, base.cotangent, seed=trial.seed + _OTHER)
    except BackwardRaised:
        return
    difference = _gap(examination, found)
    if difference.share > trial.subject.noise and _follows_seed(examination, found):
        drawn = drawn_in_backward(trial, base.cotangent)
        by = f" ({drawn.name})" if drawn is not None else ""
        yield broken(
            f"backward is random{by}, and forward is not\n"
            "from another random state "
            f"`{difference.name}` gets {difference.words}\n"
            f"that is {difference.share:.1g} of the element",
            difference.numbers,
            where=drawn.where if drawn else Places(trial).gradient(difference.name),
            remedy="Draw the numbers in forward and save them, or leave them out.",
        )


def _follows_seed(examination: Examination, other: Sequence[Tensor | None]) -> bool:
    """Whether the same two gradients come again, each from its own random state.

    Costs 2 backwards, before an accusation.
    """
    trial, base = examination.trial, examination.base
    yardstick = examination.yardstick
    own = trial.pull(base.graph, base.cotangent)
    again = trial.pull(base.graph, base.cotangent, seed=trial.seed + _OTHER)
    same = yardstick.gradients(own, base.gradient, sensitive=False)
    same_other = yardstick.gradients(again, other, sensitive=False)
    return same.share == same_other.share == 0


def _gap(examination: Examination, got: Sequence[Tensor | None]) -> Difference:
    return examination.yardstick.gradients(
        got, examination.base.gradient, sensitive=_atomic(examination.trial)
    )


def _atomic(trial: Trial) -> bool:
    """Whether sums may be taken in another order at each call."""
    return any(i.original.device.type != "cpu" for i in trial.inputs)


def _judged(examination: Examination, found: Difference, what: str) -> Evidence:
    trial = examination.trial
    allowed = max(trial.subject.noise, found.allowed)
    if found.share <= allowed:
        return held(f"{what} repeats", found.numbers if found.name else {})
    places = Places(trial)
    of_input = what == "backward"
    made = [i for i, o in enumerate(trial.outputs) if o.name == found.name] or [0]
    where = places.gradient(found.name) if of_input else places.forward_return(made[0])
    thing = f"the gradient of `{found.name}`" if of_input else f"`{found.name}`"
    return broken(
        f"{what} does not repeat: two calls with the same inputs and random state "
        f"give another {thing.removeprefix('the ')}\n"
        f"it is {found.words}\n"
        f"that is {found.share:.1g} of the element, and the declared noise is "
        f"{trial.subject.noise:g}",
        found.numbers,
        where=where,
        remedy=_remedy(found, thing),
    )


def _remedy(found: Difference, thing: str) -> str:
    """What fits how far apart two calls are."""
    if found.share > _UNINITIALISED:
        return (
            f"Write every element of {thing} (`torch.empty` holds whatever was there), "
            "and draw random numbers from torch's generators."
        )
    return (
        "Sum in a fixed order, without atomic additions, or declare the noise that you "
        "accept: `noise=`."
    )
