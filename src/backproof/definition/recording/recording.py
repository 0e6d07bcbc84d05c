"""One run of forward outside autograd: its outputs, and what it left on ctx.

Where torch's own ctx cannot go, forward runs with a `Context`. What it left is written
down without tensors (`Left`): every tensor is named as an input, an output or an extra,
an extra being one that forward made and that is neither. The extras leave the operator
beside the outputs, so that a tracer sees them, and `restored` gives backward its ctx.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CellType
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

SIMPLE = frozenset(
    {bool, int, float, complex, str, bytes, type(None)}
    | {torch.Size, torch.dtype, torch.device}
)
"""Types of values that hold no tensor."""


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor of a call: `origin` is "input", "output" or "extra"."""

    origin: str
    index: int


@dataclass(frozen=True, slots=True)
class Absent:
    """An output that is no tensor."""

    value: Any


@dataclass
class Left:
    """What forward returned and left on ctx, with places in place of tensors."""

    single: bool
    absent: tuple[Absent | None, ...]  # one an output; None where it is a tensor
    saved: tuple[Any, ...]
    saved_for_forward: tuple[Any, ...]
    attributes: dict[str, Any]
    non_differentiable: tuple[int, ...]  # indices of tensor outputs
    dirty: dict[int, int]  # index of a tensor output -> of the input that it replaces
    materialize_grads: bool
    extras: int = 0
    used: frozenset[tuple[str, int]] = frozenset()  # origin and index of each place
    hides: bool = False  # whether an object on ctx holds a tensor

    def laid_out(self, values: Sequence[Any]) -> list[Any]:
        """One value an output, from one a tensor output; None for the others."""
        source = iter(values)
        return [next(source) if a is None else None for a in self.absent]

    def result(self, outputs: Sequence[Tensor]) -> Any:
        """What `apply` returns."""
        source = iter(outputs)
        every = [next(source) if a is None else a.value for a in self.absent]
        return every[0] if self.single else tuple(every)


@dataclass
class Run:
    """One run of forward."""

    left: Left
    outputs: list[Tensor]
    extras: list[Tensor] = field(default_factory=list)


def differentiable(tensor: Tensor) -> bool:
    """Whether a derivative by it, or of it, means anything."""
    return tensor.is_floating_point() or tensor.is_complex()


def returned(result: Any) -> tuple[Any, ...]:
    """What a method returned, one value a position."""
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def left_by(ctx: Any, result: Any, tensors: Sequence[Tensor], owner: str) -> Run:
    """What `forward` left on `ctx` after it returned `result`, given these tensors."""
    every = returned(result)
    outputs = [value for value in every if isinstance(value, Tensor)]
    refuse_hidden(every, owner)
    dirty = {id(tensor) for tensor in ctx.dirty}
    places = {
        id(o): Place("output", k) for k, o in enumerate(outputs) if id(o) in dirty
    }
    for origin, known in (("input", tensors), ("output", outputs)):
        for k, tensor in enumerate(known):
            places.setdefault(id(tensor), Place(origin, k))
    extras: list[Tensor] = []
    found: set[tuple[str, int]] = set()

    def place(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if id(value) not in places:
            places[id(value)] = Place("extra", len(extras))
            extras.append(value)
        known = places[id(value)]
        found.add((known.origin, known.index))
        return known

    inputs = {id(tensor): k for k, tensor in enumerate(tensors)}
    marked = {id(tensor) for tensor in ctx.non_differentiable}
    left = Left(
        single=not isinstance(result, (tuple, list)),
        absent=tuple(None if isinstance(v, Tensor) else Absent(v) for v in every),
        saved=tuple(place(value) for value in ctx.saved_tensors),
        saved_for_forward=tuple(place(value) for value in ctx.saved_for_forward),
        attributes={
            name: value if value.__class__ in SIMPLE else pytree.tree_map(place, value)
            for name, value in vars(ctx).items()
        },
        non_differentiable=tuple(
            k
            for k, output in enumerate(outputs)
            if id(output) in marked or not differentiable(output)
        ),
        dirty={
            k: inputs[id(output)]
            for k, output in enumerate(outputs)
            if id(output) in dirty and id(output) in inputs
        },
        materialize_grads=ctx.materialize_grads,
    )
    left.extras, left.used = len(extras), frozenset(found)
    left.hides = hides_tensor(left.attributes)
    return Run(left, outputs, extras)


def refuse_hidden(every: Sequence[Any], owner: str) -> None:
    """No tensor may leave inside a container: autograd would not know it."""
    for k, value in enumerate(every):
        if value is None or isinstance(value, (Tensor, int, float, str)):
            continue
        if any(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(value)):
            raise TypeError(
                f"{owner}: output {k} is a {type(value).__name__} that holds tensors, "
                "which would carry no gradient; return each tensor as an output of its "
                "own"
            )


def filled(
    ctx: Any,
    left: Left,
    tensors: Sequence[Any],
    outputs: Sequence[Any],
    extras: Sequence[Any],
) -> Any:
    """`ctx`, with what forward left on it."""
    known = {"input": tensors, "output": outputs, "extra": extras}

    def tensor(value: Any) -> Any:
        return known[value.origin][value.index] if isinstance(value, Place) else value

    ctx.saved_tensors = tuple(tensor(place) for place in left.saved)
    ctx.saved_for_forward = tuple(tensor(place) for place in left.saved_for_forward)
    ctx.materialize_grads = left.materialize_grads
    for name, value in left.attributes.items():
        simple = value.__class__ in SIMPLE
        setattr(ctx, name, value if simple else pytree.tree_map(tensor, value))
    return ctx


def hides_tensor(attributes: dict[str, Any]) -> bool:
    """Whether something on ctx holds a tensor where nobody looks for one."""
    return any(
        _holds_inside(leaf)
        for value in attributes.values()
        if value.__class__ not in SIMPLE
        for leaf in pytree.tree_leaves(value)
    )


def _holds_inside(thing: Any) -> bool:
    """A closure over a tensor, or an object with one; a module's are its parameters."""
    if isinstance(thing, (Tensor, Place, torch.nn.Module, type)):
        return False
    cells = getattr(thing, "__closure__", None) or ()
    inside = [*getattr(thing, "__dict__", {}).values()]
    inside += [cell.cell_contents for cell in cells if cell != _EMPTY]
    return any(isinstance(value, Tensor) for value in inside)


_EMPTY = CellType()
