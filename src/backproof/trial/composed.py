"""The composed form of a Function: its own forward under autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from backproof.errors import BadInput
from backproof.function_class import takes_ctx
from backproof.trial.trial import Refused, Trial


class _Ctx:
    """Stands in for ctx: keeps nothing and answers nothing."""

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep nothing: autograd keeps what it needs."""

    save_for_forward = mark_dirty = mark_non_differentiable = save_for_backward

    def set_materialize_grads(self, value: bool) -> None:  # noqa: FBT001
        """There is no backward that would ask."""


def composed(trial: Trial) -> Trial | None:
    """The same call of forward itself; None where that has no gradient of its own."""
    definition = trial.subject.definition
    if definition is None:
        return None
    forward: Any = definition.forward
    with_ctx = takes_ctx(definition)

    def plain(*arguments: Any, **keywords: Any) -> Any:
        if with_ctx:
            return forward(_Ctx(), *arguments, **keywords)
        return forward(*arguments, **keywords)

    other = trial.in_place_of(plain)
    try:
        graph = other.record()
        other.pull_tensors(graph, other.split(torch.ones_like(graph.values)))
    except (BadInput, Refused, Exception):
        return None
    return other
