"""Arguments that no schema of the dispatcher can hold, known by a number.

A callable, a module or a dataclass is handed to the operator as a number and found again
here. Outside of a tracer the number lasts as long as the object; a traced program may be
run later, so what it names is kept.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import torch

from backproof.definition import private

_numbers = itertools.count()
_weak: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_kept: dict[int, Any] = {}
_known: dict[int, int] = {}  # id of the object -> its number


@private.constant_for_dynamo
def number_of(value: Any) -> int:
    """The number of `value`; the same object has the same one while it lives."""
    number = _known.get(id(value))
    if number is None or object_of(number) is not value:
        number = next(_numbers)
        _known[id(value)] = number
        try:
            _weak[number] = value
        except TypeError:  # a slice, a dict: no weak references to it
            _kept[number] = value
    if torch.compiler.is_compiling() or private.under(private.dispatch_modes):
        _kept[number] = value
    return number


def object_of(number: int) -> Any:
    """The object; an error where it is gone, or was never of this process."""
    found = _kept.get(number)
    return _weak.get(number) if found is None else found
