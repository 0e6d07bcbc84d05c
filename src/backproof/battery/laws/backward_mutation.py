"""BP202: backward reads what it is handed and what was saved, and writes to neither."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.battery.observed import Operation, address, last_write, operations_of
from backproof.battery.place import Places
from backproof.diagnosis.region import element
from backproof.records import Evidence, broken, held
from backproof.trial import BackwardRaised, Trial
from backproof.trial.copies import twin
from backproof.trial.custom_nodes import custom_nodes


@law("BP202")
def backward_mutation(examination: Examination) -> Iterator[Evidence]:
    """Backward leaves cotangents and saved tensors unchanged.

    Cost: 1 forward and 1 backward. To accuse, as many again.
    Blind to: cotangents inside of native Functions; what backward changes and restores.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    trial = examination.trial
    changed = list(_changed(trial, examination.base.cotangent))
    if not changed:
        yield held("cotangents and saved tensors are as they were")
        return
    yield from _told(trial, examination.base.cotangent, changed)


@dataclass(frozen=True)
class _Watched:
    """A tensor that backward is handed, or finds saved, and what it held before.

    `number` is its place among the cotangents, or among the saved tensors; `argument`
    the argument of forward that it is, if any.
    """

    kind: str
    number: int
    argument: str
    tensor: Tensor
    before: Tensor

    @property
    def changed(self) -> Tensor:
        """Where it is not what it was."""
        now, before = self.tensor, self.before
        return ~((now == before) | ((now != now) & (before != before)))


def _changed(trial: Trial, cotangent: Tensor) -> Iterator[_Watched]:
    """Run backward once, and find what it has written to.

    Raises:
        NotApplicable: this backward raises.
    """
    graph = trial.record()
    handed = trial.split(cotangent)
    watched = list(_watch("cotangent", handed, {}))
    hooks = []
    names = {
        address(tensor): name
        for name, tensor in zip(trial.names, graph.handed, strict=True)
    }
    for node in custom_nodes(graph):
        watched += _watch("saved tensor", _saved(node), names)
        hooks.append(node.register_prehook(partial(_before, watched)))
    try:
        trial.pull_tensors(graph, handed)
    except BackwardRaised as error:
        raise NotApplicable("a second graph's backward raises") from error
    finally:
        for hook in hooks:
            hook.remove()
    yield from (one for one in watched if bool(one.changed.any()))


def _before(watched: list[_Watched], cotangents: tuple[Any, ...]) -> None:
    """A hook of a node, called when its cotangents are there."""
    watched.extend(_watch("cotangent", cotangents, {}))


def _watch(
    kind: str, tensors: Sequence[Any], names: Mapping[int | None, str]
) -> Iterator[_Watched]:
    for number, tensor in enumerate(tensors):
        if isinstance(tensor, Tensor):
            argument = names.get(address(tensor), "")
            yield _Watched(kind, number, argument, tensor, twin(tensor))


def _told(
    trial: Trial, cotangent: Tensor, changed: list[_Watched]
) -> Iterator[Evidence]:
    """What is changed, with the operations that wrote when it is run once more."""
    places, found = Places(trial), list[_Watched]()
    codes = [places.backward] if places.backward is not None else []
    seen = operations_of(lambda: found.extend(_changed(trial, cotangent)), codes)
    told: set[str] = set()
    for one in found or changed:
        evidence = _evidence(places, one, last_write(seen, address(one.tensor)))
        title = evidence.words.partition("\n")[0]
        if title not in told:
            told.add(title)
            yield evidence


def _evidence(places: Places, one: _Watched, by: Operation | None) -> Evidence:
    if one.kind == "cotangent":
        name = places.cotangent_name(one.number)
    else:
        name = places.saved_name(one.number) or one.argument
    called = f" `{name}`" if name else f" number {one.number}"
    operation = f" in place ({by.name})" if by is not None else ""
    changed = one.changed
    at = int(changed.reshape(-1).nonzero()[0])
    where_at = element(name or one.kind, tuple(changed.shape), at)
    before, after = (t.reshape(-1)[at].item() for t in (one.before, one.tensor))
    copied = f"`{name}.clone()`" if name else "a clone of it"
    return broken(
        f"backward changes the {one.kind}{called}{operation}\n"
        f"before backward {_shown(before)}, after it {_shown(after)} at {where_at}; "
        f"{int(changed.sum())} of {changed.numel()} elements are changed\n"
        f"{_CONSEQUENCE[one.kind]}",
        {"changed": name or one.kind, "operation": by.name if by else "unknown"},
        where=by.where if by is not None else places.returned(),
        remedy=f"Write the result into a new tensor, or work in place on {copied}.",
    )


_CONSEQUENCE = {
    "cotangent": "whoever else holds that tensor, such as the other branch of a sum, "
    "sees the change",
    "saved tensor": "a second backward, or whoever else owns that tensor, reads the new "
    "values",
}


def _shown(value: complex) -> str:
    return f"{value:.6g}"


def _saved(node: Any) -> tuple[Any, ...]:
    try:
        return tuple(node.saved_tensors)
    except (RuntimeError, AttributeError):
        return ()
