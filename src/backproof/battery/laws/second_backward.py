"""BP206: the same graph, pulled again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

from torch import Tensor

from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law, raised
from backproof.battery.place import Places
from backproof.battery.state import context_writes
from backproof.records import Evidence, Location, broken, held
from backproof.trial import BackwardRaised, Graph, Trial

_TORCHS_OWN = ("second time", "have already been freed", "modified by an inplace")


@law("BP206")
def second_backward(examination: Examination) -> Iterator[Evidence]:
    """A second backward through a kept graph gives the same; a freed one, torch's error.

    Cost: 1 forward and 4 backwards.
    Blind to: what changes from the third backward on.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    trial, base = examination.trial, examination.base
    graph = trial.record()
    first = trial.pull(graph, base.cotangent)
    try:
        second = trial.pull(graph, base.cotangent)
    except BackwardRaised as error:
        trial.single_use = True  # the other laws get a fresh graph for each backward
        yield broken(
            "a second backward through a kept graph raises\n"
            f"{raised(error)}\n"
            "with `retain_graph=True` the first one leaves everything in place",
            {"raised": raised(error)},
            **_consumed(trial, Places(trial).raised(error)),
        )
        return
    found = examination.yardstick.gradients(second, first)
    if found.is_real and not examination.is_random:
        trial.single_use = True
        yield broken(
            "a second backward through a kept graph gives another gradient\n"
            f"`{found.name}` gets {found.words}",
            found.numbers,
            **_consumed(trial, Places(trial).gradient(found.name)),
        )
        return
    yield held("a second backward gives the same gradient", found.numbers)
    yield _freed(examination, graph, first)


def _freed(
    examination: Examination, graph: Graph, first: list[Tensor | None]
) -> Evidence:
    """After the graph is freed, torch refuses, or nothing was needed from it."""
    trial, cotangent = examination.trial, examination.base.cotangent
    trial.pull_tensors(graph, trial.split(cotangent), retain=False)
    try:
        again = trial.pull(graph, cotangent)
    except BackwardRaised as error:
        if any(text in str(error) for text in _TORCHS_OWN):
            return held("backward through a freed graph is refused by torch")
        return broken(
            "backward through a freed graph does not say so\n"
            f"it raises {raised(error)}\n"
            "torch's own message names the way out, `retain_graph=True`",
            {"raised": raised(error)},
            where=Places(trial).raised(error),
        )
    found = examination.yardstick.gradients(again, first)
    if found.is_real and not examination.is_random:
        return broken(
            "backward through a freed graph gives another gradient instead of an error\n"
            f"`{found.name}` gets {found.words}",
            found.numbers,
            where=Places(trial).gradient(found.name),
        )
    return held("backward needs nothing that a freed graph has lost")


class _Told(TypedDict):
    where: Location | None
    remedy: str


def _consumed(trial: Trial, otherwise: Location | None) -> _Told:
    """What backward uses up or changes on ctx, where its text tells."""
    code = Places(trial).backward
    found = list(context_writes(code)) if code is not None else []
    if not found and code is not None and code.method.in_place:
        write = code.method.in_place[0]
        remedy = (
            f"Leave what was saved as it is: work in place on `{write.name}.clone()`."
        )
        return {"where": code.at_line(write.line), "remedy": remedy}
    if not found:
        return {"where": otherwise, "remedy": ""}
    name, place = found[0]
    remedy = (
        f"Leave `ctx.{name}` as it is in backward: work on a copy of it, and let "
        "autograd free what was saved."
    )
    return {"where": place, "remedy": remedy}
