"""BP201: what forward was handed is as it was, or autograd knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from backproof.battery.examination import Examination
from backproof.battery.law import law
from backproof.battery.observed import address, last_write, operations_of
from backproof.battery.place import Places, forwards_in
from backproof.errors import BadInput
from backproof.function_class import class_of_node
from backproof.records import Evidence, broken, held
from backproof.trial import Graph, Refused, Trial
from backproof.trial.copies import untouched
from backproof.trial.custom_nodes import custom_nodes
from backproof.trial.written import written_without_graph


@law("BP201")
def forward_mutation(examination: Examination) -> Iterator[Evidence]:
    """Forward leaves its inputs unchanged, or marks them dirty.

    Cost: 1 forward; 2 where a Function is called inside of the subject.
    Blind to: tensors inside the subject that only native code writes to.
    """
    trial = examination.trial
    graph = trial.record()
    inside = written_without_graph(trial.record) if _has_inside(trial, graph) else []
    changed = False
    for k, (name, given, handed) in enumerate(
        zip(trial.names, trial.leaves, graph.handed, strict=True)
    ):
        if same(given, handed):
            continue
        changed = True
        returned = [v for _, v in graph.found]
        evidence = _judged(name, handed, returned, reads=_reads(examination, k))
        yield evidence if evidence.holds else _traced(examination, k, evidence)
    for operation, tensor in inside:
        if all(tensor is not handed for handed in graph.handed):
            changed = True
            yield _inside(trial, operation, tensor)
    if not changed:
        yield held("forward leaves every argument as it was")


def _traced(examination: Examination, k: int, evidence: Evidence) -> Evidence:
    """The evidence with the operation that did it. Costs 1 forward."""
    trial, graphs = examination.trial, list[Graph]()
    codes = Places(examination.trial).forward
    seen = operations_of(lambda: graphs.append(trial.record()), codes)
    name = trial.names[k]
    remedy = (
        "Use the out-of-place operation, or return the changed input itself and name "
        f"it: `ctx.mark_dirty({name})`."
        if isinstance(trial.leaves[k], Tensor)
        else f"Work on a copy of `{name}`."
    )
    target = address(graphs[0].handed[k]) if graphs else None
    found = last_write(seen, target)
    where = found.where if found is not None else Places(trial).mention(name)
    words = evidence.words
    if found is not None:
        words = words.replace(f"`{name}`", f"`{name}` in place ({found.name})", 1)
    return broken(words, evidence.numbers, where=where, remedy=remedy)


def _inside(trial: Trial, operation: str, tensor: Tensor) -> Evidence:
    """A tensor of the subject's own making that a Function inside of it changes."""
    graph = Places(trial).graph
    codes = forwards_in(graph) if graph is not None else []
    seen = operations_of(trial.record, codes)
    plain = operation.removeprefix("aten.").partition(".")[0]
    found = [s for s in seen if s.where is not None and s.name == plain]
    return broken(
        "forward changes a tensor in place that autograd tracks, and does not "
        "say so\n"
        f"`{operation}` writes to a tensor of shape {tuple(tensor.shape)} with "
        f"grad_fn {_node(tensor)}, inside the subject\n"
        "whoever else uses that tensor gets other numbers than their own "
        "backward assumes",
        {"operation": operation},
        where=found[0].where if found else None,
    )


def _has_inside(trial: Trial, graph: Graph) -> bool:
    """Whether a Function is handed tensors that the subject makes itself.

    Watching them costs a second forward, and a second of imports in a fresh process.
    """
    own = trial.subject.definition
    return any(class_of_node(node) is not own for node in custom_nodes(graph))


def _judged(name: str, handed: Any, returned: list[Any], *, reads: bool) -> Evidence:
    """An argument that forward has changed."""
    if not isinstance(handed, Tensor):
        return broken(
            f"forward changes `{name}`, a {type(handed).__name__}\n"
            "a caller who uses it again gets other numbers"
        )
    if any(handed is value for value in returned):
        return held(f"forward works in place on `{name}` and returns it")
    if handed.requires_grad and handed.grad_fn is not None and not _is_copy(handed):
        return held(f"forward changes `{name}` in place, and autograd records it")
    if not handed.requires_grad and handed._version > 0 and not reads:
        return held(f"forward writes to `{name}` and does not read it")
    return broken(
        f"forward changes its input `{name}`, and autograd is not told\n"
        "the caller's tensor has other values afterwards, and so has every backward "
        "that saved it",
        {"input": name},
    )


def _reads(examination: Examination, k: int) -> bool:
    """Whether the outputs depend on an argument that needs no gradient.

    A running average is written and not read. Costs 1 forward.
    """
    trial = examination.trial
    leaf = trial.leaves[k]
    if not isinstance(leaf, Tensor) or not leaf.is_floating_point():
        return True
    leaves = list(trial.leaves)
    leaves[k] = leaf.detach() * 1.25 + 0.125
    try:
        other = trial.with_leaves(leaves).record()
    except (BadInput, Refused):
        return True
    before = examination.base.graph.values
    if other.values.numel() != before.numel():
        return True
    return not torch.equal(other.values.nan_to_num(), before.nan_to_num())


def _is_copy(handed: Tensor) -> bool:
    """Whether its node is the copy that a trial hands to ops that work in place."""
    return "CloneBackward" in _node(handed)


def _node(tensor: Tensor) -> str:
    return type(tensor.grad_fn).__name__ if tensor.grad_fn else "none: it is a leaf"


def same(given: Any, handed: Any) -> bool:
    """Whether an argument still holds what it was given with, bit for bit."""
    if isinstance(given, torch.Generator) or type(given) is not type(handed):
        return True  # a generator is there to be moved
    if isinstance(given, np.ndarray):
        return bool(np.array_equal(given, handed, equal_nan=given.dtype.kind in "fc"))
    if not isinstance(given, Tensor) or given.layout is not torch.strided:
        return True
    a, b = untouched(given), handed.detach()
    return bool(((a == b) | ((a != a) & (b != b))).all())  # NaN equals itself
