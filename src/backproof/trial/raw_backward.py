"""What a Function's backward returns, before the engine has adapted it.

The engine casts a gradient to its input's type and sums it to its input's shape, so the
mistake does not show in what `autograd.grad` returns. The node of a Python Function is
its own ctx, and knows its class: backward can be called on it directly. Private names
of torch are used here only, and where they are missing nothing is seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backproof.function_class import class_of_apply, class_of_node, own_backward
from backproof.trial.random_state import restart
from backproof.trial.trial import BackwardRaised, Graph, Trial


@dataclass(frozen=True)
class RawReturn:
    """What backward returned, as a tuple, and how many inputs forward was given."""

    values: tuple[Any, ...]
    num_arguments: int


def raw_backward(trial: Trial, graph: Graph, cotangent: Tensor) -> RawReturn | None:
    """Call backward once on the node itself.

    None unless the subject is a Function's own `apply`, all of whose differentiable
    outputs come from one node.

    Raises:
        BackwardRaised: the user's backward raises.
    """
    node = graph.tensors[0].grad_fn
    owner = class_of_apply(trial.subject.function)
    backward = own_backward(owner)
    if backward is None or class_of_node(node) is not owner:
        return None
    if any(t.grad_fn is not node for t in graph.tensors):
        return None
    metadata = getattr(node, "_input_metadata", None)
    if metadata is None:
        return None
    handed: list[Tensor | None] = [None] * len(metadata)
    for tensor, part in zip(graph.tensors, trial.split(cotangent), strict=True):
        handed[tensor.output_nr] = part
    if getattr(node, "materialize_grads", True):
        handed = [
            torch.zeros(tuple(m.shape), dtype=m.dtype, device=m.device)
            if part is None
            else part
            for part, m in zip(handed, metadata, strict=True)
        ]
    restart(trial.seed)
    trial.calls.backward += 1
    try:
        with torch.no_grad():  # as the engine does it
            returned = backward(node, *handed)
    except Exception as error:
        raise BackwardRaised(str(error)) from error
    values = returned if isinstance(returned, tuple) else (returned,)
    return RawReturn(values, len(trial.case.arguments))
