"""A kept call -> the Subject and the Case that the battery judges."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from backproof import tree
from backproof.audit.identity import calls_directly
from backproof.audit.kept import KeptObject, KeptTensor
from backproof.audit.ledger import KeptCall, Ledger
from backproof.audit.objects import (
    held_by,
    hold_history,
    is_opaque,
    renewed,
)
from backproof.function_class import own_method
from backproof.probe import Domain
from backproof.subject import Case, subject_of
from backproof.trial import Refused, Trial

_ROUNDINGS = 16.0  # by which what is symmetric by meaning may be off, as `a @ a.mT` is


class CannotReplay(Exception):
    """The call cannot be made again; the text says why."""


class Replay:
    """One kept call, made again as often as the battery asks.

    Attributes:
        subject: the Function, called as it was called, under the autocast of then.
        case: its arguments.
    """

    def __init__(self, ledger: Ledger, call: KeptCall) -> None:
        leaves = [leaf for _, leaf in tree.leaves(call.arguments, "")]
        kept = [_is_kept(leaf) for leaf in leaves]
        self._opaque = [
            k for k, leaf in enumerate(leaves) if not kept[k] and is_opaque(leaf)
        ]
        # Alive as long as their ids stand for them.
        self._originals = {
            k: original
            for k, leaf in enumerate(leaves)
            if kept[k] and (original := leaf.original()) is not None
        }
        objects = [leaves[k] for k in self._opaque]
        held = held_by(objects, [id(t) for t in self._originals.values()])
        self._held = {k: id(t) for k, t in self._originals.items() if id(t) in held}
        if not self._held:
            for k, fresh in zip(self._opaque, renewed(objects, {}), strict=True):
                leaves[k] = fresh
        self._call = call
        self._apply: Callable[..., Any] = calls_directly(call.written)
        with torch.inference_mode(mode=False):
            self._leaves = [_given(leaf) for leaf in leaves]
        subject = subject_of(call.written, name=ledger.identity.name)
        self.subject = dataclasses.replace(
            subject, function=self._again, where=ledger.where
        )
        self.case = self._case(excluding=set())

    def read(self, trial: Trial) -> tuple[Case, list[str]]:
        """The case without the inputs that forward does not read, and their names.

        A gradient for such an input is that of a tensor which an object among the
        arguments holds, or which forward closes over: the program connects the two, and
        a replay cannot. Costs a forward, and one more for each such input.
        """
        if not has_objects(self._call):
            return self.case, []
        wanted = [k for k, leaf in enumerate(self._leaves) if _needs(leaf)]
        values = [p.values for p in trial.points]
        graph = trial.record()
        unread: dict[int, str] = {}
        for n, k in enumerate(wanted):
            if k in self._held or values[n].numel() == 0:
                continue
            moved = [*values]
            moved[n] = values[n] * 1.25 + 0.25
            try:
                after = trial.forward(moved)
            except Refused:
                continue
            if torch.equal(after.nan_to_num(), graph.values.nan_to_num()):
                unread[k] = trial.inputs[n].name
        return self._case(excluding=set(unread)), list(unread.values())

    def symmetric(self, trial: Trial, calls: Sequence[KeptCall]) -> dict[str, Domain]:
        """The inputs that were symmetric matrices in all of `calls`, by name.

        An eigenvalue or a solve by Cholesky is meant for such alone, and its gradient is
        right along symmetric directions only.
        """
        rows = [[x for _, x in tree.leaves(call.arguments, "")] for call in calls]
        return {
            trial.names[k]: Domain(structure="sym")
            for k, leaf in enumerate(self._leaves)
            if _needs(leaf)
            and all(k < len(row) and _is_symmetric(_given(row[k])) for row in rows)
        }

    def _case(self, excluding: set[int]) -> Case:
        given = [
            leaf.detach() if k in excluding else leaf
            for k, leaf in enumerate(self._leaves)
        ]
        arguments = tree.rebuild(self._call.arguments, iter(given))
        return Case(arguments, label=self._call.label)

    def _again(self, *arguments: Any) -> Any:
        if self._held:
            leaves = [leaf for _, leaf in tree.leaves(arguments, "")]
            stand_ins = {key: leaves[k] for k, key in self._held.items()}
            fresh = renewed([leaves[k] for k in self._opaque], stand_ins)
            for k, one in zip(self._opaque, fresh, strict=True):
                leaves[k] = one
            arguments = tree.rebuild(arguments, iter(leaves))
        with _surroundings(self._call):
            result = self._apply(*arguments)
        for name, leaf in tree.leaves(arguments, "an argument"):
            if isinstance(leaf, Tensor) and _is_freed(leaf):
                raise CannotReplay(
                    f"forward frees the memory of {name}, which nobody may read again"
                )
        return result


def has_objects(call: KeptCall) -> bool:
    """Whether tensors may come into a call by another way than its arguments."""
    leaves = [leaf for _, leaf in tree.leaves(call.arguments, "")]
    return any(is_opaque(leaf) for leaf in leaves if not _is_kept(leaf)) or (
        _closes_over(call.written)
    )


def is_connected_elsewhere(call: KeptCall) -> bool:
    """Whether an object of its arguments holds tensors with a history of their own."""
    leaves = [leaf for _, leaf in tree.leaves(call.arguments, "")]
    return hold_history([leaf for leaf in leaves if not _is_kept(leaf)])


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Torch's default type as it was when a call was made."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _surroundings(call: KeptCall) -> Iterator[None]:
    with ExitStack() as stack:
        for device, dtype in call.autocast:
            stack.enter_context(torch.autocast(device, dtype=dtype))
        yield


def _given(leaf: Any) -> Any:
    return leaf.tensor() if _is_kept(leaf) else leaf


def _is_kept(leaf: Any) -> bool:
    return isinstance(leaf, (KeptTensor, KeptObject))


def _is_freed(tensor: Tensor) -> bool:
    return (
        type(tensor) in (Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and tensor.numel() > 0
        and not tensor.is_meta
        and tensor.untyped_storage().nbytes() == 0
    )


def _is_symmetric(leaf: Any) -> bool:
    if not isinstance(leaf, Tensor) or leaf.layout is not torch.strided:
        return False
    if leaf.dim() < 2 or not leaf.shape[-1] == leaf.shape[-2] > 1 or not leaf.numel():
        return False
    values = leaf.detach()
    rounding = _ROUNDINGS * torch.finfo(values.dtype).eps * values.abs().max()
    return bool((values - values.mT).abs().max() <= rounding)


def _needs(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.requires_grad


def _closes_over(cls: type) -> bool:
    """Whether forward or backward is a closure over something."""
    methods = (own_method(cls, "forward"), own_method(cls, "backward"))
    return any(getattr(method, "__closure__", None) for method in methods)
