"""Objects among a call's arguments, made anew so that replays leave the program's alone.

A Function is often handed a module or a function beside the tensors that it holds:
`Adjoint.apply(module, x, *module.parameters())`. A copy of those tensors means nothing
unless the module holds the same copy, so objects are copied with the tensors of the
call in the place of the originals.
"""

from __future__ import annotations

import copy
import enum
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

_ATOMS = (
    type(None),
    *(bool, int, float, complex, str, bytes, type, enum.Enum, types.ModuleType),
    *(types.BuiltinFunctionType, torch.dtype, torch.device, torch.layout),
    *(torch.memory_format, np.generic, Tensor),
)
_MOST_CELLS = 64
_MOST_HELD = 10_000  # objects that are looked through


def is_opaque(leaf: Any) -> bool:
    """Whether tensors may be held inside, or state that a call may change."""
    if isinstance(leaf, types.FunctionType):
        return bool(leaf.__closure__) or bool(_used_globals(leaf))
    return not isinstance(leaf, _ATOMS)


class _Memo(dict[int, Any]):
    """What `copy.deepcopy` has copied; notes which stand-ins were asked for."""

    def __init__(self, stand_ins: Mapping[int, Any]) -> None:
        super().__init__(stand_ins)
        self._stand_ins = frozenset(stand_ins)
        self.met: set[int] = set()

    def get(self, key: int, default: Any = None) -> Any:
        if key in self._stand_ins:
            self.met.add(key)
        return super().get(key, default)


def renewed(objects: Sequence[Any], stand_ins: Mapping[int, Any]) -> list[Any]:
    """Copies of `objects`, with `stand_ins` for the tensors of these ids.

    What cannot be copied (an open file, a lock, a tensor in the middle of a graph) is
    handed on as it is.
    """
    return [_copied(one, _Memo(stand_ins)) for one in objects]


def held_by(objects: Sequence[Any], ids: Sequence[int]) -> set[int]:
    """Which of the tensors of these ids the objects hold, as far as copying tells."""
    found: set[int] = set()
    for one in objects:
        memo = _Memo(dict.fromkeys(ids))
        _copied(one, memo)
        found |= memo.met
    return found


def tensors_in(objects: Sequence[Any]) -> Iterator[Tensor]:
    """The tensors that they hold: in attributes, containers and closures."""
    waiting, seen = list(objects), set[int]()
    while waiting and len(seen) < _MOST_HELD:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, types.FunctionType):
            waiting += [_contents(cell) for cell in value.__closure__ or ()]
            waiting += [value.__globals__[name] for name in _used_globals(value)]
        elif isinstance(value, types.MethodType):
            waiting.append(value.__self__)
        elif not isinstance(value, _ATOMS):
            waiting.append(getattr(value, "__dict__", None) or ())


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was put there yet
        return None


def _copied(value: Any, memo: _Memo) -> Any:
    if isinstance(value, types.FunctionType):
        return _function(value, memo)
    if isinstance(value, Tensor):
        return memo.get(id(value), value)
    if isinstance(value, types.MethodType):
        return types.MethodType(value.__func__, _copied(value.__self__, memo))
    try:
        return copy.deepcopy(value, memo)
    except Exception:
        return value


def _function(function: types.FunctionType, memo: _Memo) -> Any:
    """A function over copies of what it closes over, and of modules it finds globally."""
    cells, used = function.__closure__ or (), _used_globals(function)
    if not (cells or used) or len(cells) > _MOST_CELLS:
        return function
    known = memo.get(id(function))
    if known is not None:
        return known
    fresh = tuple(types.CellType() for _ in cells)
    found = function.__globals__
    if used:
        found = {**found, **{name: _copied(found[name], memo) for name in used}}
    made = types.FunctionType(
        function.__code__, found, function.__name__, function.__defaults__, fresh
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    memo[id(function)] = made  # it may hold itself
    for old, new in zip(cells, fresh, strict=True):
        try:
            new.cell_contents = _copied(old.cell_contents, memo)
        except ValueError:  # an empty cell
            continue
    return made


def _used_globals(function: types.FunctionType) -> list[str]:
    """Names of modules and tensors that a function finds in its own file."""
    found = function.__globals__
    return [
        name
        for name in function.__code__.co_names
        if isinstance(found.get(name), (torch.nn.Module, Tensor))
    ]
