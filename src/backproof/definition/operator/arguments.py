"""A call's arguments as what a schema of torch's dispatcher takes, and back.

One schema serves every call of every class:

    (Tensor[] tensors, SymInt[] ints, float[] floats, str form) -> Tensor[]

`form` says how the arguments are built from the three lists, as a Python literal such as
`('T', 'f', ('[', 'T', 'T'), ('=', 'mean'))`; it holds what is no number and no tensor.
What cannot be written down (a callable, a module, a dataclass) is kept in `objects.py`
and named by a number. A program that holds the form can be read, saved and loaded.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from backproof.definition.operator import objects
from backproof.errors import Undeclared

_NAMED = (torch.dtype, torch.layout, torch.memory_format)
_BY_NAME = {str(v): v for v in vars(torch).values() if isinstance(v, _NAMED)}
_LARGEST = 2**63 - 1


@dataclass
class Packed:
    """Arguments in the shape of the schema."""

    tensors: list[Tensor]
    ints: list[int | torch.SymInt]
    floats: list[float | torch.SymFloat]
    form: str


def pack(arguments: Iterable[Any]) -> Packed:
    """The arguments of one call, for the dispatcher; traced by dynamo too."""
    packed = Packed([], [], [], "")
    items = ", ".join([_item(argument, packed) for argument in arguments])
    packed.form = f"({items},)" if items else "()"
    return packed


def _item(value: Any, into: Packed) -> str:  # noqa: C901
    """What stands for `value` in the form; numbers and tensors go into the lists."""
    if isinstance(value, Tensor):
        into.tensors.append(value)
        return "'T'"
    if value is None or isinstance(value, bool):
        return f"('=', {value})"
    if isinstance(value, (int, torch.SymInt)):
        if type(value) is int and not -_LARGEST <= value <= _LARGEST:
            return f"('=', {value})"
        into.ints.append(value)
        return "'i'"
    if isinstance(value, (float, torch.SymFloat)):
        into.floats.append(value)
        return "'f'"
    if isinstance(value, (str, bytes)):
        return f"('=', {value!r})"
    if isinstance(value, complex):
        return f"('c', '{value.real!r}', '{value.imag!r}')"
    if isinstance(value, torch.Size):
        return f"('S', {''.join([_item(v, into) + ', ' for v in value])})"
    if type(value) is tuple:
        return f"('(', {''.join([_item(v, into) + ', ' for v in value])})"
    if type(value) is list:
        return f"('[', {''.join([_item(v, into) + ', ' for v in value])})"
    if type(value) is dict and all(isinstance(k, (str, int)) for k in value):
        pairs = [f"({k!r}, {_item(v, into)}), " for k, v in value.items()]
        return "('{', " + "".join(pairs) + ")"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        kind = f"{type(value).__module__}:{type(value).__qualname__}"
        return f"('N', '{kind}', {''.join([_item(v, into) + ', ' for v in value])})"
    if isinstance(value, slice):
        parts = (value.start, value.stop, value.step)
        return f"(':', {''.join([_item(v, into) + ', ' for v in parts])})"
    if isinstance(value, torch.dtype):
        return f"('n', '{value}')"
    if isinstance(value, torch.device):
        return f"('d', '{value}')"
    return _other(value, into)


def _other(value: Any, into: Packed) -> str:
    if isinstance(value, _NAMED):
        return f"('n', '{value}')"
    if value is Ellipsis:
        return "('e',)"
    leaves, spec = pytree.tree_flatten(value)
    if any(isinstance(leaf, Tensor) for leaf in leaves):  # a named tuple and its like
        inner = "".join([_item(leaf, into) + ", " for leaf in leaves])
        return f"('p', {objects.number_of(spec)}, {inner})"
    return f"('o', {objects.number_of(value)})"


def holds_object(form: str) -> bool:
    """Whether the form names something that only this process knows."""
    return "('o', " in form or "('p', " in form


def not_written_down(name: str) -> Undeclared:
    """The error for a program that would have to hold such an object."""
    return Undeclared(
        f"{name}: an argument that is no tensor, number, string or container of these "
        "cannot be part of an exported or traced program; make it an attribute that "
        "forward looks up, or pass what it is made of"
    )


class Form:
    """How arguments are built: what a form means."""

    def __init__(self, text: str) -> None:
        self.items: tuple[Any, ...] = ast.literal_eval(text)
        self._flat = all(
            isinstance(item, str) or item[0] in "=ndce" for item in self.items
        )
        self._at = {
            kind: [k for k, item in enumerate(self.items) if item == kind]
            for kind in "Tif"
        }
        self._constants = (
            [None if isinstance(i, str) else _built(i, {}) for i in self.items]
            if self._flat
            else []
        )

    def arguments(
        self, tensors: Iterable[Any], ints: Iterable[Any], floats: Iterable[Any]
    ) -> list[Any]:
        """The arguments again; `tensors` may be anything that stands for them."""
        if not self._flat:
            source = {"T": iter(tensors), "i": iter(ints), "f": iter(floats)}
            return [_built(item, source) for item in self.items]
        built = self._constants.copy()
        for kind, values in (("T", tensors), ("i", ints), ("f", floats)):
            for place, value in zip(self._at[kind], values, strict=True):
                built[place] = value
        return built

    def spread(self, values: Iterable[Any]) -> list[Any]:
        """One value a tensor, laid out as the arguments are; None where none is."""
        if not self._flat:
            source = iter(values)
            return [_laid_out(item, source) for item in self.items]
        laid_out: list[Any] = [None] * len(self.items)
        for place, value in zip(self._at["T"], values, strict=True):
            laid_out[place] = value
        return laid_out

    def gather(self, per_argument: Iterable[Any]) -> list[Any]:
        """One value a tensor from one an argument: the inverse of `spread`."""
        values = list(per_argument)
        if any(value is not None for value in values[len(self.items) :]):
            raise TypeError(
                f"backward gave {len(values)} gradients for {len(self.items)} arguments"
            )
        values += [None] * (len(self.items) - len(values))
        if self._flat:
            return [values[place] for place in self._at["T"]]
        pairs = zip(self.items, values, strict=False)
        return [leaf for item, value in pairs for leaf in _leaves(item, value)]


@lru_cache(maxsize=4096)
def form_of(text: str) -> Form:
    """The form that `text` is; read once."""
    return Form(text)


def _has_tensor(item: Any) -> bool:
    if item == "T":
        return True
    if not isinstance(item, tuple) or item[0] in "=ndceo":
        return False
    parts = [v for _, v in item[1:]] if item[0] == "{" else item[1:]
    return any(_has_tensor(part) for part in parts)


def _built(item: Any, source: dict[str, Iterator[Any]]) -> Any:
    if isinstance(item, str):
        return next(source[item])
    kind, *parts = item
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](_built(part, source) for part in parts)
    if kind == "{":
        return {key: _built(value, source) for key, value in parts}
    if kind == "N":
        return _class(parts[0])(*[_built(part, source) for part in parts[1:]])
    if kind == "p":
        leaves = [_built(part, source) for part in parts[1:]]
        return pytree.tree_unflatten(leaves, objects.object_of(parts[0]))
    return _CONSTANTS[kind](*parts)


def _laid_out(item: Any, source: Iterator[Any]) -> Any:
    if item == "T":
        return next(source)
    if not _has_tensor(item):
        return None
    kind, *parts = item
    if kind == "{":
        return {key: _laid_out(value, source) for key, value in parts}
    if kind == "N":
        return _class(parts[0])(*[_laid_out(part, source) for part in parts[1:]])
    if kind == "p":
        leaves = [_laid_out(part, source) for part in parts[1:]]
        return pytree.tree_unflatten(leaves, objects.object_of(parts[0]))
    return _CONTAINERS[kind](_laid_out(part, source) for part in parts)


def _leaves(item: Any, value: Any) -> Iterator[Any]:
    """The values in `value` at the tensors of `item`; None in place of a container too."""
    if item == "T":
        yield value
        return
    if not _has_tensor(item):
        return
    if isinstance(value, Tensor):
        raise TypeError(
            "backward gave one tensor for an argument that holds several values; give a "
            "container of gradients in its place"
        )
    kind, *parts = item
    if kind == "p":
        parts = parts[1:]
        values = pytree.tree_leaves(value, is_leaf=lambda v: v is None)
    elif kind == "N":
        parts = parts[1:]
        values = [] if value is None else list(value)
    elif kind == "{":
        values = [None if value is None else value.get(key) for key, _ in parts]
        parts = [part for _, part in parts]
    else:
        values = [] if value is None else list(value)
    if value is not None and len(values) != len(parts):
        raise ValueError(
            f"backward gave {len(values)} gradients for an argument that holds "
            f"{len(parts)} values"
        )
    for k, part in enumerate(parts):
        yield from _leaves(part, values[k] if value is not None else None)


@lru_cache(maxsize=256)
def _class(name: str) -> Any:
    """A class from `module:qualified.name`."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module) or import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


_CONTAINERS: dict[str, Callable[[Iterator[Any]], Any]] = {
    "(": tuple,
    "[": list,
    "S": torch.Size,
    ":": lambda parts: slice(*parts),
}
_CONSTANTS: dict[str, Callable[..., Any]] = {
    "=": lambda value: value,
    "n": lambda name: _BY_NAME[name],
    "d": torch.device,
    "c": lambda real, imaginary: complex(float(real), float(imaginary)),
    "e": lambda: ...,
    "o": objects.object_of,
}
