"""BP203: what backward reads later is guarded against in-place changes until then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from backproof.battery.difference import Difference
from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places, attributes_holding
from backproof.records import Evidence, broken, held
from backproof.trial import BackwardRaised, Graph
from backproof.trial.custom_nodes import custom_nodes
from backproof.trial.flat import flat

_MOST = 6  # tensors that are each changed in a graph of their own


@law("BP203")
def stale_save(examination: Examination) -> Iterator[Evidence]:
    """Tensors are saved with `save_for_backward`, not kept on ctx (stale after in-place).

    An argument, or an output, is changed in place after forward. Backward then either
    raises torch's error or gives the gradient at the old values; other numbers come from
    a tensor that torch does not know backward needs.

    Cost: 1 forward and 1 backward for each of up to 6 floating arguments and outputs.
    Blind to: integer arguments; tensors that forward makes and keeps.
    """
    trial = examination.trial
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    if not any(custom_nodes(examination.base.graph)):
        raise NotApplicable("no hand-written Function is behind the outputs")
    places: list[tuple[str, int]] = [
        ("argument", k) for k, leaf in enumerate(trial.leaves) if _is_float(leaf)
    ][:_MOST]
    places += [("output", k) for k in range(len(trial.outputs))][:_MOST]
    for kind, k in places:
        graph = trial.record()
        tensor = graph.handed[k] if kind == "argument" else graph.tensors[k]
        name = trial.names[k] if kind == "argument" else trial.outputs[k].name
        if _change(tensor):
            yield _judged(examination, graph, kind, name)


def _judged(examination: Examination, graph: Graph, kind: str, name: str) -> Evidence:
    trial, base = examination.trial, examination.base
    try:
        again = trial.pull_tensors(graph, trial.split(base.cotangent))
    except BackwardRaised:
        return held(f"a change of `{name}` before backward is refused")
    found = examination.yardstick.gradients(_flat(again), base.gradient)
    if not found.is_real:
        return held(f"a change of `{name}` before backward does not matter")
    return _told(examination, graph, kind, name, found)


def _told(
    examination: Examination, graph: Graph, kind: str, name: str, found: Difference
) -> Evidence:
    places, tensors = Places(examination.trial), [*graph.handed, *graph.tensors]
    names = [*examination.trial.names, *(o.name for o in examination.trial.outputs)]
    tensor = tensors[names.index(name)]
    attributes = [
        attribute
        for node in custom_nodes(graph)
        for attribute in attributes_holding(node, tensor)
    ]
    kept, remedy = "", ""
    where = places.saved(name) if kind == "argument" else None
    if attributes:
        where = places.attribute(attributes[0]) or where
        kept = f" as `ctx.{attributes[0]}`"
        other = name if kind == "argument" else attributes[0]
        own = places.kept_as(attributes[0]) or other
        remedy = (
            f"Save it with `ctx.save_for_backward({own})` and read it from "
            "`ctx.saved_tensors` in backward; keep only plain values on ctx."
        )
    return broken(
        f"backward reads the {kind} `{name}` unguarded{kept}: an in-place change "
        "before backward is used without an error\n"
        f"after such a change `{found.name}` gets {found.words}",
        {"changed": name, **found.numbers},
        where=where or places.returned(),
        remedy=remedy,
    )


def _flat(gradients: tuple[Tensor | None, ...]) -> list[Tensor | None]:
    return [None if g is None else flat([g]) for g in gradients]


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def _change(tensor: Tensor) -> bool:
    """Change it as an optimiser would, in torch's sight; False where that is refused."""
    with torch.no_grad():
        try:
            tensor.mul_(0.5).add_(0.25)
        except RuntimeError:
            return False
    return True
