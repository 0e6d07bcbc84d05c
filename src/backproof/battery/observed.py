"""The operations of torch that run, each with the line of the user's that asked for it.

Seen below autograd, where every operation passes. What native code does by itself is
not seen. Costs a second of imports in a fresh process, so it is for accusations only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from backproof.battery.code import Code
from backproof.battery.place import Places
from backproof.records import Location
from backproof.trial import Trial
from backproof.trial.inside import seen_inside


@dataclass(frozen=True)
class Operation:
    """One operation.

    Attributes:
        name: as one writes it: `mul_`.
        where: the line of the watched functions that runs, None where none does.
        written: addresses of the memory that it writes to.
        random: whether it draws random numbers.
    """

    name: str
    where: Location | None
    written: frozenset[int]
    random: bool


def operations_of(
    call: Callable[[], object], codes: Sequence[Code]
) -> Sequence[Operation]:
    """Run `call` and list what it wrote to or drew, in order; what it raises ends it."""
    watch = _Watch(codes)
    try:
        with watch:
            call()
    except Exception:  # what ran until then is known
        return watch.seen
    return watch.seen


def address(tensor: Any) -> int | None:
    """The address of a tensor's memory, None where it has none of its own."""
    if not isinstance(tensor, Tensor) or tensor.layout is not torch.strided:
        return None
    return tensor.untyped_storage().data_ptr() or None


def last_write(seen: Sequence[Operation], target: int | None) -> Operation | None:
    """The operation of the user's that wrote to the memory at `target` last."""
    found = [one for one in seen if target in one.written and one.where is not None]
    return found[-1] if found else None


def drawn_in_backward(trial: Trial, cotangent: Tensor) -> Operation | None:
    """The first operation of backward that draws random numbers, with its line.

    Costs 2 forwards and 1 backward.
    """
    places = Places(trial)
    code, graph = places.backward, places.graph
    if code is None or graph is None:
        return None
    seen = operations_of(lambda: trial.pull(graph, cotangent), [code])
    found = [one for one in seen if one.random and one.where is not None]
    return found[0] if found else None


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, codes: Sequence[Code]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._codes = codes
        self.seen: list[Operation] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        written = frozenset(_written(func, args, kwargs))
        random = torch.Tag.nondeterministic_seeded in func.tags
        if written or random:
            name = func._schema.name.partition("::")[2]
            self.seen.append(Operation(name, self._where(), written, random))
        return seen_inside(self, func, args, kwargs)

    def _where(self) -> Location | None:
        frame = sys._getframe(2)
        for code in self._codes:
            found = code.running_in(frame)
            if found is not None:
                return found
        return None


def _written(func: Any, args: Any, kwargs: Any) -> Iterator[int]:
    for k, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[k] if k < len(args) else kwargs.get(argument.name)
        found = address(value)
        if found is not None:
            yield found
