"""BP701: what the graph held is gone when the graph is."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from torch import Tensor

from backproof import tree
from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places
from backproof.battery.state import outer_writes
from backproof.records import Evidence, broken, held
from backproof.trial import BackwardRaised, Graph
from backproof.trial.custom_nodes import custom_nodes


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
            yield _cycle(examination, cycle, when)
            return
        if kept:
            yield _kept(examination, kept, when)
            return
    yield held("nothing stays alive")


def _cycle(examination: Examination, alive: str, when: str) -> Evidence:
    """The evidence, with the cycle where it leads through an attribute of ctx."""
    trial = examination.trial
    places = Places(trial)
    found = _attribute_in_cycle(places.graph) if places.graph is not None else None
    path = "such as a tensor that is kept on ctx and leads back to it"
    where, remedy = None, ""
    if found is not None:
        attribute, through = found
        path = f"ctx.{attribute} -> {through} -> grad_fn -> ctx"
        where = places.attribute(attribute)
        own = places.kept_as(attribute) or attribute
        remedy = (
            f"Save it with `ctx.save_for_backward({own})`, which breaks the circle, in "
            f"place of `ctx.{attribute}`."
        )
    return broken(
        f"{alive} stays alive when the graph is dropped, until the garbage "
        "collector runs\n"
        f"{when}: a reference cycle, {path}; in training the memory is held for "
        "many steps",
        {"alive": alive},
        where=where,
        remedy=remedy,
    )


def _attribute_in_cycle(graph: Graph) -> tuple[str, str] | None:
    """(attribute of ctx, what it is) of a tensor whose graph leads back to that ctx."""
    outputs = {id(v): f"output `{n}`" for n, v in graph.found if isinstance(v, Tensor)}
    for node in custom_nodes(graph):
        for path, value in tree.leaves(dict(getattr(node, "__dict__", {})), ""):
            if isinstance(value, Tensor) and leads_to(value.grad_fn, node):
                attribute = next(iter(re.findall(r"\w+", path)), "")
                return attribute, outputs.get(id(value), "a tensor made from it")
    return None


def _kept(examination: Examination, alive: str, when: str) -> Evidence:
    """The evidence, with the global that forward or backward writes."""
    writes = [
        one for code in Places(examination.trial).both for one in outer_writes(code)
    ]
    holder, where, remedy = "something global holds it", None, ""
    if writes:
        name, where = writes[0]
        holder = f"something global holds it, perhaps `{name}`"
        remedy = f"Keep it on ctx with `ctx.save_for_backward`, not in `{name}`."
    return broken(
        f"{alive} stays alive for ever when the graph is dropped\n"
        f"{when}, and after a collection of garbage: {holder}",
        {"alive": alive},
        where=where,
        remedy=remedy,
    )


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


def leads_to(node: Any, wanted: Any) -> bool:
    """Whether the graph behind `node` holds `wanted`."""
    waiting, seen = [node], set[Any]()
    while waiting:
        one = waiting.pop()
        if one is wanted:
            return True
        if one is not None and one not in seen:
            seen.add(one)
            waiting += [parent for parent, _ in one.next_functions]
    return False
