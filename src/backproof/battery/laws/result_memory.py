"""BP204: what a call returned stays what it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from backproof import dispatcher
from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.battery.observed import address, last_write, operations_of
from backproof.battery.place import Places
from backproof.records import Evidence, broken, held
from backproof.trial import Graph, Refused, Trial
from backproof.trial.copies import twin
from backproof.trial.elsewhere import elsewhere

_CALLS = 3  # buffers may be used in turn


@law("BP204")
def result_memory(examination: Examination) -> Iterator[Evidence]:
    """No result lives in memory that the next call, or an unaware input, shares.

    Cost: 6 forwards and 4 backwards.
    Blind to: buffers that only a call of another shape overwrites.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    base, trial = examination.base, examination.trial.keeping_buffers()
    cotangents = trial.split(base.cotangent)
    graph = trial.record()
    gradients = trial.pull_tensors(graph, cotangents)
    names = [
        *(f"`{o.name}`" for o in trial.outputs),
        *(f"the gradient of `{i.name}`" for i in trial.inputs),
    ]
    kept = [*graph.tensors, *gradients]
    before = [None if t is None else twin(t) for t in kept]
    moved = elsewhere(trial)
    for _ in range(_CALLS):
        _another_call(trial, moved, cotangents)
    overwritten = _changed(names, kept, before)
    for name in overwritten:
        target = address(kept[names.index(name)])
        yield _overwritten(trial, cotangents, name, target)
    if not overwritten:
        yield held("results are as they were after another call")
    graph = trial.record()
    operator = trial.subject.operator
    if operator is not None and dispatcher.promises_new_memory(operator):
        yield from _undeclared(trial, graph)
    else:
        yield from _aliases(trial, graph)


def _overwritten(
    trial: Trial, cotangents: Sequence[Tensor], name: str, target: int | None
) -> Evidence:
    """The evidence, with the operation that overwrites, seen in one more call."""
    places = Places(trial)
    moved = elsewhere(trial)
    seen = operations_of(lambda: _another_call(trial, moved, cotangents), places.both)
    by = last_write(seen, target)
    where = by.where if by is not None else None
    if where is None and not name.startswith("the gradient"):
        where = places.forward_return()
    operation = f" ({by.name} into a buffer that calls share)" if by is not None else ""
    return broken(
        f"the next call overwrites {name}{operation}\n"
        "it lives in a buffer that calls share; whoever kept it now holds the other "
        "call's numbers",
        {"result": name},
        where=where or places.returned(),
        remedy=f"Allocate {name} anew in each call, or return a copy: `.clone()`.",
    )


def _another_call(
    trial: Trial, moved: Sequence[Tensor], cotangents: Sequence[Tensor]
) -> None:
    try:
        graph = trial.record(moved)
    except Refused:
        graph = trial.record()
    trial.pull_tensors(graph, [2 * u for u in cotangents])


def _changed(
    names: Sequence[str], kept: Sequence[Tensor | None], before: Sequence[Tensor | None]
) -> list[str]:
    found = []
    for name, now, then in zip(names, kept, before, strict=True):
        if now is None or then is None:
            continue
        equal = (now == then) | ((now != now) & (then != then))
        if not bool(equal.all()):
            found.append(name)
    return found


def _undeclared(trial: Trial, graph: Graph) -> Iterator[Evidence]:
    """Outputs in the memory of an input, where the schema of an operator has none."""
    for name, label, same in _pairs(graph, trial.names):
        what = "is" if same else "lives in the memory of"
        yield broken(
            f"`{name}` {what} `{label}`, and the operator's schema does not say so\n"
            "compilers and exporters rely on the schema when they order in-place changes",
            {"output": name, "input": label},
            where=Places(trial).forward_return(),
            remedy="Return a copy (`.clone()`), or declare the alias in the schema.",
        )


def _aliases(trial: Trial, graph: Graph) -> Iterator[Evidence]:
    """An output in an input's memory is a view of it, or shares its version counter."""
    by_name = dict(graph.found)
    inputs = dict(zip(trial.names, graph.handed, strict=True))
    for name, label, same in _pairs(graph, trial.names):
        if same:
            continue  # the tensor itself has one version counter
        if _autograd_knows(by_name[name], inputs[label]):
            yield held(f"`{name}` shares memory with `{label}`, and torch knows")
        else:
            yield broken(
                f"`{name}` lives in the memory of `{label}`, and autograd does not know\n"
                "an in-place change of the one changes the other without a trace: no "
                "version counter moves, so no backward can object",
                {"output": name, "input": label},
                where=Places(trial).forward_return(),
                remedy=f"Return a copy of `{label}` (`.clone()`), or make the view with "
                "torch's own operations outside of the Function.",
            )


def _pairs(graph: Graph, names: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """(output, input, whether it is the same tensor) of those that share memory."""
    for name, output in graph.found:
        if not isinstance(output, Tensor) or output.layout is not torch.strided:
            continue
        for label, handed in zip(names, graph.handed, strict=True):
            if isinstance(handed, Tensor) and _share(output, handed):
                yield name, label, output is handed


def _share(a: Tensor, b: Tensor) -> bool:
    if b.layout is not torch.strided or not a.numel() or not b.numel():
        return False
    mine, theirs = a.untyped_storage(), b.untyped_storage()
    begin = max(mine.data_ptr(), theirs.data_ptr())
    end = min(mine.data_ptr() + mine.nbytes(), theirs.data_ptr() + theirs.nbytes())
    return begin < end and a.device == b.device


def _autograd_knows(output: Tensor, handed: Tensor) -> bool:
    """Whether an in-place change of the output moves the input's version counter."""
    before, kept = handed._version, twin(handed)
    with torch.no_grad():
        try:
            output.add_(1)
        except RuntimeError:
            return True  # torch itself forbids the change
    moved = not torch.equal(kept.nan_to_num(), handed.detach().nan_to_num())
    return not moved or handed._version != before
