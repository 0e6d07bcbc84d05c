"""Arguments and outputs as trees: tuples, lists, dicts and dataclasses of anything.

A leaf is whatever is none of these. Leaves are named as a user would write them:
`parts[0]`, `state["h"]`, `out.mean`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every leaf of `value` with its name, in a fixed order."""
    for label, child in _children(value, name):
        if child is value:
            yield label, child
        else:
            yield from leaves(child, label)


def rebuild(value: Any, fresh: Iterator[Any]) -> Any:
    """A tree of the same form, its leaves taken in order from `fresh`.

    Containers are built anew, so the caller's are never changed.
    """
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(rebuild(v, fresh) for v in value))
    if isinstance(value, (tuple, list)):
        return type(value)(rebuild(v, fresh) for v in value)
    if isinstance(value, Mapping):
        return _like(value, {k: rebuild(v, fresh) for k, v in value.items()})
    if _is_record(value):
        built = copy.copy(value)  # no __init__: it may compute or validate
        for field in dataclasses.fields(value):
            new = rebuild(getattr(value, field.name), fresh)
            object.__setattr__(built, field.name, new)
        return built
    return next(fresh)


def _children(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from ((f"{name}.{f}", getattr(value, f)) for f in value._fields)
    elif isinstance(value, (tuple, list)):
        yield from ((f"{name}[{i}]", v) for i, v in enumerate(value))
    elif isinstance(value, Mapping):
        yield from ((f"{name}[{k!r}]", v) for k, v in value.items())
    elif _is_record(value):
        for field in dataclasses.fields(value):
            yield f"{name}.{field.name}", getattr(value, field.name)
    else:
        yield name, value


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _like(old: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """`items` in a mapping like `old`, with its default factory where it has one."""
    if type(old) is dict:
        return items
    built = copy.copy(old)
    try:
        built.update(items)  # type: ignore[attr-defined]
    except AttributeError:
        return items
    return built
