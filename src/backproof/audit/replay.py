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
    is_opaque,
    renewed,
    tensors_in,
)
from backproof.function_class import own_method
from backproof.probe import Domain
from backproof.subject import Case, subject_of
from backproof.trial import BackwardRaised, Refused, Trial

_ROUNDINGS = 16.0  # by which what is symmetric by meaning may be off, as `a @ a.mT` is


class CannotReplay(Exception):
    """The call cannot be made again; the text says why."""


class Replay:
    """One kept call, made again as often as the battery asks.

    Attributes:
        subject: the Function, called as it was called, under the autocast of then.
        case: its arguments.
        is_linked: whether objects among them hold others of them, so that laws which
            vary one alone have nothing to vary.
    """

    def __init__(self, ledger: Ledger, call: KeptCall) -> None:
        leaves = [leaf for _, leaf in tree.leaves(call.arguments, "")]
        kept = [_is_kept(leaf) for leaf in leaves]
        self._opaque = [
            k for k, leaf in enumerate(leaves) if not kept[k] and is_opaque(leaf)
        ]
        originals = {
            k: original
            for k, leaf in enumerate(leaves)
            if kept[k] and (original := leaf.original()) is not None
        }
        with torch.inference_mode(mode=False):
            self._leaves = [_given(leaf) for leaf in leaves]
        objects = [leaves[k] for k in self._opaque]
        held = held_by(objects, [id(t) for t in originals.values()])
        # The program's own objects are never run again: copies are, which hold our
        # tensors in the place of the program's.
        stand_ins = {id(t): self._leaves[k] for k, t in originals.items()}
        for k, fresh in zip(self._opaque, renewed(objects, stand_ins), strict=True):
            self._leaves[k] = fresh
        self._held = {
            k: id(self._leaves[k]) for k, t in originals.items() if id(t) in held
        }
        self._call = call
        self._apply: Callable[..., Any] = calls_directly(call.written)
        subject = subject_of(call.written, name=ledger.identity.name)
        self.subject = dataclasses.replace(
            subject, function=self._again, where=ledger.where
        )
        self.case = self._case(excluding=set())
        self.is_linked = bool(self._held)

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

    def given(self, trial: Trial) -> Case:
        """The case with those inputs alone to which backward gives a gradient.

        Costs a forward and a backward.

        Raises:
            CannotReplay: it gives none to any.
        """
        graph = trial.record()
        try:
            gradients = trial.pull(graph, torch.ones_like(graph.values))
        except BackwardRaised:
            return self.case  # the laws say so
        wanted = [k for k, leaf in enumerate(self._leaves) if _needs(leaf)]
        none = {k for k, g in zip(wanted, gradients, strict=True) if g is None}
        if len(none) == len(wanted):
            raise CannotReplay("backward gives no gradient to any input")
        return self._case(excluding=none)

    def symmetric(
        self, trial: Trial, case: Case, calls: Sequence[KeptCall]
    ) -> dict[str, Domain]:
        """The inputs of `case` that were symmetric matrices in all of `calls`, by name.

        An eigenvalue or a solve by Cholesky is meant for such alone, and its gradient is
        right along symmetric directions only.
        """
        rows = [[x for _, x in tree.leaves(call.arguments, "")] for call in calls]
        mine = [leaf for _, leaf in tree.leaves(case.arguments, "")]
        return {
            trial.names[k]: Domain(structure="sym")
            for k, leaf in enumerate(mine)
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
    """Whether tensors come into a call by another way than its arguments."""
    return next(tensors_in(_objects(call)), None) is not None


def is_connected_elsewhere(call: KeptCall) -> bool:
    """Whether such a tensor was computed from others that need a gradient."""
    return any(tensor.grad_fn is not None for tensor in tensors_in(_objects(call)))


def _objects(call: KeptCall) -> list[Any]:
    """What is among the arguments beside tensors, and what the Function closes over."""
    leaves = [leaf for _, leaf in tree.leaves(call.arguments, "")]
    methods = (own_method(call.written, name) for name in ("forward", "backward"))
    return [*(leaf for leaf in leaves if not _is_kept(leaf)), *methods]


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
        if call.device != torch.get_default_device():
            stack.enter_context(call.device)
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
    if bool((values - values.mT).abs().max() > rounding):
        return False
    # A test's `torch.ones(3, 3)` or `torch.eye(3)` is symmetric, and not by contract.
    size = values.shape[-1]
    beside = ~torch.eye(size, dtype=torch.bool, device=values.device)
    others = values[..., beside]
    plain = size > 2 and bool((others == others[..., :1]).all())
    return not plain and bool(others.any())


def _needs(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.requires_grad
