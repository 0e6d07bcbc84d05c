"""BP701: what the graph held is gone when the graph is."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from torch import Tensor

from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.records import Evidence, broken, held
from backproof.trial import BackwardRaised


@law("BP701")
def leak(examination: Examination) -> Iterator[Evidence]:
    """Freeing the graph frees what was saved: no cycle through ctx.

    The outputs of one call are dropped with the garbage collector off, once before a
    backward and once after it.

    Cost: 2 forwards and 1 backward.
    Blind to: memory of native code; copies that are kept elsewhere on purpose.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    for used in (False, True):
        cycle, kept = _left_alive(examination, backward=used)
        when = "after backward" if used else "without a backward"
        if cycle:
            yield broken(
                f"{cycle} stays alive when the graph is dropped, until the garbage "
                "collector runs\n"
                f"{when}: a reference cycle, such as a tensor that is kept on ctx and "
                "leads back to it; in training the memory is held for many steps",
                {"alive": cycle},
            )
            return
        if kept:
            yield broken(
                f"{kept} stays alive for ever when the graph is dropped\n"
                f"{when}, and after a collection of garbage: something global holds it",
                {"alive": kept},
            )
            return
    yield held("nothing stays alive")


def _left_alive(examination: Examination, *, backward: bool) -> tuple[str, str]:
    """(what a cycle keeps, what stays even so), each a name or empty."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        watched = _run(examination, backward=backward)
        alive = [name for name, reference in watched if reference() is not None]
        if not alive:
            return "", ""
        gc.collect()
        kept = [name for name, reference in watched if reference() is not None]
        return ("", kept[0]) if kept else (alive[0], "")
    finally:
        if was_on:
            gc.enable()


def _run(
    examination: Examination, *, backward: bool
) -> list[tuple[str, weakref.ref[Any]]]:
    """One call, all of whose tensors are only watched when this returns."""
    trial = examination.trial
    graph = trial.record()
    given = len(trial.names) - trial.num_parameters  # which the module itself may keep
    watched = [
        (f"output `{name}`", weakref.ref(value))
        for name, value in graph.found
        if isinstance(value, Tensor)
    ]
    watched += [
        (f"input `{name}`", weakref.ref(value))
        for name, value in zip(trial.names[:given], graph.handed, strict=False)
        if isinstance(value, Tensor)
    ]
    if backward:
        with suppress(BackwardRaised):
            trial.pull(graph, examination.base.cotangent)
    return watched
