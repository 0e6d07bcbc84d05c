"""BP702: what backward keeps and computes, in bytes and gradients."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
from torch import Tensor

from backproof import tree
from backproof.battery.cases import subsets
from backproof.battery.examination import Examination
from backproof.battery.law import NotApplicable, law
from backproof.battery.place import Places
from backproof.errors import BadInput
from backproof.records import Evidence, held
from backproof.trial import BackwardRaised, Refused, Trial
from backproof.trial.composed import composed
from backproof.trial.custom_nodes import custom_nodes
from backproof.trial.raw_backward import raw_backward

_MORE = 1.05  # times what the composed form holds
_LARGE = 2**14  # bytes: less is not worth a note


@law("BP702")
def saved_bytes(examination: Examination) -> Iterator[Evidence]:
    """Backward saves and computes no more than its gradients need (a note).

    The composed form is the reference, or forward itself under autograd where forward is
    torch code.

    Cost: 2 forwards, and 1 forward and 1 backward for each input alone.
    Blind to: buffers that native code keeps; time.
    """
    if examination.backward_raised() is not None:
        raise NotApplicable("backward raised")
    trial = examination.trial
    if trial.subject.definition is None:
        raise NotApplicable("no Function is known behind the subject")
    mine = _held(trial)
    plain = composed(trial)
    if trial.subject.reference is not None:
        plain = trial.in_place_of(trial.subject.reference)
    other = None if plain is None else _held(plain)
    keeps = f"it keeps {_size(mine)} for backward"
    if other is not None:
        keeps += f", plain autograd keeps {_size(other)}"
    noted = list(_needless(trial))
    if other is not None and mine > max(_MORE * other, other + _LARGE):
        note = held(keeps, {"bytes": mine, "composed_bytes": other})
        noted.insert(0, dataclasses.replace(note, where=Places(trial).first_save()))
    if not noted:
        raise NotApplicable(f"{keeps}, and computes no gradient in vain")
    yield from noted


def _size(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def _held(trial: Trial) -> int:
    """Bytes of the storages that a graph keeps for backward, each counted once."""
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        _count(storages, tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        graph = trial.record()
    for node in custom_nodes(graph):
        for _, value in tree.leaves(dict(getattr(node, "__dict__", {})), "ctx"):
            if isinstance(value, Tensor):
                _count(storages, value)
    return sum(storages.values())


def _count(storages: dict[int, int], tensor: Tensor) -> None:
    if tensor.layout is torch.strided and tensor.numel():
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()


def _needless(trial: Trial) -> Iterator[Evidence]:
    """Gradients that backward computes for inputs that need none."""
    told: set[str] = set()
    alone = [v.trial for v in subsets(trial) if len(v.trial.inputs) == 1]
    for fewer in (trial, *alone):
        for name in _computed(fewer):
            if name not in told:
                told.add(name)
                yield _in_vain(fewer, name)


def _in_vain(fewer: Trial, name: str) -> Evidence:
    alone = ", ".join(f"`{i.name}`" for i in fewer.inputs)
    names = [n for n, _ in fewer.named_arguments]
    ask = f"[{names.index(name)}]" if name in names else ""
    note = held(
        f"backward computes the gradient of `{name}` also when only {alone} needs one",
        {"input": name},
    )
    return dataclasses.replace(
        note,
        where=Places(fewer).gradient(name),
        remedy=f"Ask `ctx.needs_input_grad{ask}` before the work.",
    )


def _computed(trial: Trial) -> list[str]:
    try:
        graph = trial.record()
        cotangent = torch.ones_like(graph.values)
        raw = raw_backward(trial, graph, cotangent)
    except (BadInput, Refused, BackwardRaised):
        return []
    if raw is None:
        return []
    needed = {i.name for i in trial.inputs}
    found: list[str] = []
    for (name, argument), value in zip(trial.named_arguments, raw.values, strict=False):
        tensors = isinstance(argument, Tensor) and isinstance(value, Tensor)
        if tensors and name not in needed and value.nbytes >= _LARGE:
            found.append(name)
    return found
