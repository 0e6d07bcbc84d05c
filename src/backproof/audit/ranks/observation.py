"""What a real call looked like on one rank: enough to compare it with other ranks'.

Tensors are not kept for that but sketched: a digest tells whether two are the same, and
sums along fixed random signs tell how far they are apart.
"""

from __future__ import annotations

import hashlib
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from backproof import tree
from backproof.audit.ledger import KeptCall
from backproof.function_class import class_of_node

_LINES = 4  # random lines of a sketch
_APART = 1e-3  # of a gradient's norm: more is no rounding
_MOST_NODES = 2000  # that are searched for the leaves which an input was computed from
_MOST_ROOTS = 32  # leaves that are sketched
_LARGEST_ROOT = 2**20  # elements
_backwards = itertools.count()  # of this process, to know which came first


@dataclass(frozen=True)
class Sketch:
    """A tensor without its values.

    Attributes:
        digest: of its type, shape and bytes.
        norm: Euclidean.
        along: its sums along random signs.
        constant: whether all its elements are the same.
    """

    digest: str
    norm: float
    along: tuple[float, ...]
    constant: bool


@dataclass
class Observed:
    """One kept call; lists have an entry for each input that needed a gradient.

    Attributes:
        parameters: whether it is an `nn.Parameter`.
        roots: the leaves that it was computed from, as they were then.
        order: which of the process's backwards it was; None before it has run.
        cotangents: what arrived, for each output.
        gradients: what backward returned.
    """

    parameters: list[bool]
    roots: list[list[tuple[weakref.ref[Tensor], Sketch]]]
    order: int | None = None
    cotangents: list[Sketch | None] = field(default_factory=list)
    gradients: list[Sketch | None] = field(default_factory=list)


def sketch(tensor: Tensor) -> Sketch:
    """The sketch of a plain tensor."""
    with torch.no_grad():
        here = tensor.detach().to("cpu").resolve_conj().resolve_neg().contiguous()
        flat = torch.view_as_real(here).reshape(-1) if here.is_complex() else here
        values = flat.reshape(-1).double()
        chance = torch.Generator().manual_seed(0)
        along = []
        for _ in range(_LINES):
            signs = torch.randint(0, 2, values.shape, generator=chance).mul_(2).sub_(1)
            along.append(float(values @ signs.double()))
        told = hashlib.blake2b(digest_size=16)
        told.update(f"{here.dtype} {tuple(here.shape)}".encode())
        told.update(here.reshape(-1).view(torch.uint8).numpy().tobytes())
        constant = bool((values == values[0]).all()) if values.numel() else True
        return Sketch(told.hexdigest(), float(values.norm()), tuple(along), constant)


def apart(sketches: Sequence[Sketch]) -> bool:
    """Whether two of these tensors differ by more than their rounding."""
    most = max((one.norm for one in sketches), default=0.0)
    columns = zip(*(one.along for one in sketches), strict=True)
    return any(max(column) - min(column) > _APART * most for column in columns)


def observe(call: KeptCall, arguments: Any, *, first: bool) -> Callable[[Any], None]:
    """Note what is there before a call; what is returned wants to know its result.

    `first` says that it is the first call of its Function, whose roots are noted.
    """
    given = [leaf for _, leaf in tree.leaves(arguments, "")]
    inputs = [t for t in given if isinstance(t, Tensor) and t.requires_grad]
    observed = Observed(
        [isinstance(t, torch.nn.Parameter) for t in inputs],
        [list(_roots(t)) if first else [] for t in inputs],
    )
    call.observed.append(observed)

    def told(result: Any) -> None:
        with suppress(Exception):  # it is the program that runs
            _follow(call.written, result, observed)

    return told


def _follow(written: type, result: Any, observed: Observed) -> None:
    """Note what arrives at the node of a call when its backward runs."""
    for _, leaf in tree.leaves(result, ""):
        node = leaf.grad_fn if isinstance(leaf, Tensor) else None
        if node is None or class_of_node(node) is not written:
            continue
        wanted = [parent is not None for parent, _ in node.next_functions]

        def note(
            gradients: Sequence[Tensor | None],
            cotangents: Sequence[Tensor | None],
            wanted: Sequence[bool] = wanted,
        ) -> None:
            if observed.order is not None:  # a graph may be walked twice
                return
            observed.order = next(_backwards)
            with suppress(Exception):  # tensors of a strange kind
                mine = [g for g, one in zip(gradients, wanted, strict=False) if one]
                found = _sketched(cotangents), _sketched(mine)
                observed.cotangents, observed.gradients = found

        node.register_hook(note)
        return


def _sketched(tensors: Sequence[Tensor | None]) -> list[Sketch | None]:
    return [sketch(t) if isinstance(t, Tensor) else None for t in tensors]


def _roots(tensor: Tensor) -> Iterator[tuple[weakref.ref[Tensor], Sketch]]:
    """The leaves that a tensor was computed from, the nearest first."""
    if tensor.grad_fn is None:
        yield weakref.ref(tensor), sketch(tensor)
        return
    waiting, seen, found = [tensor.grad_fn], {tensor.grad_fn}, 0
    for node in waiting:
        if len(seen) > _MOST_NODES or found == _MOST_ROOTS:
            return
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, Tensor) and leaf.numel() <= _LARGEST_ROOT:
            found += 1
            yield weakref.ref(leaf), sketch(leaf)
        for parent, _ in node.next_functions:
            if parent is not None and parent not in seen:
                seen.add(parent)
                waiting.append(parent)
