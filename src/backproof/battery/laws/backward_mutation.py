"""BP202: backward reads what it is handed and what was saved, and writes to neither."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.records import Evidence, broken, held
from backproof.trial import BackwardRaised
from backproof.trial.copies import twin
from backproof.trial.custom_nodes import custom_nodes, function_name


@law("BP202")
def backward_mutation(examination: Examination) -> Iterator[Evidence]:
    """Backward leaves cotangents and saved tensors unchanged.

    Cost: 1 forward and 1 backward.
    Blind to: cotangents inside of native Functions; what backward changes and restores.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    trial = examination.trial
    graph = trial.record()
    handed = trial.split(examination.base.cotangent)
    watched = [_Watched("", handed, "cotangent")]
    hooks = []
    for node in custom_nodes(graph):
        watched.append(_Watched(function_name(node), _saved(node), "saved tensor"))
        hooks.append(node.register_prehook(_watcher(function_name(node), watched)))
    try:
        trial.pull_tensors(graph, handed)
    except BackwardRaised as error:
        raise NotApplicable("a second graph's backward raises") from error
    finally:
        for hook in hooks:
            hook.remove()
    told: set[str] = set()
    for one in watched:
        for words in one.changed():
            if words not in told:
                told.add(words)
                yield broken(words)
    if not told:
        yield held("cotangents and saved tensors are as they were")


class _Watched:
    """Tensors of one node, and what they held before backward."""

    def __init__(self, owner: str, tensors: Sequence[Any], kind: str) -> None:
        self._owner, self._kind = owner, kind
        self._tensors = [t for t in tensors if isinstance(t, Tensor)]
        self._before = [twin(t) for t in self._tensors]

    def changed(self) -> Iterator[str]:
        """Words for every tensor that is not what it was."""
        for k, (now, before) in enumerate(
            zip(self._tensors, self._before, strict=True)
        ):
            equal = (now == before) | ((now != now) & (before != before))
            if not bool(equal.all()):
                which = f" number {k}" if len(self._tensors) > 1 else ""
                count = int(torch.count_nonzero(~equal))
                yield (
                    f"backward overwrites {_article(self._kind)}{which}\n"
                    f"{count} of {equal.numel()} elements are changed; "
                    + _CONSEQUENCE[self._kind]
                )


_CONSEQUENCE = {
    "cotangent": "whoever else holds that tensor, such as the other branch of a sum, "
    "sees the change",
    "saved tensor": "a second backward, or whoever else owns that tensor, reads the new "
    "values",
}


def _article(kind: str) -> str:
    return {"cotangent": "the cotangent", "saved tensor": "a saved tensor"}[kind]


def _watcher(owner: str, watched: list[_Watched]) -> Any:
    def before(cotangents: tuple[Any, ...]) -> None:
        watched.append(_Watched(owner, cotangents, "cotangent"))

    return before


def _saved(node: Any) -> tuple[Any, ...]:
    try:
        return tuple(node.saved_tensors)
    except (RuntimeError, AttributeError):
        return ()
