"""Numbers that a backward looks up in changing globals, and another number for each.

What is a constant and what is a setting cannot be known. A setting is taken to be a
number in a dictionary, or a plain global that some function of the module rebinds with
a `global` statement; tuples, lists and globals that nobody rebinds are constants.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from backproof.function_class import class_of_node, own_backward
from backproof.trial.custom_nodes import custom_nodes
from backproof.trial.trial import Graph

_MOST = 8  # numbers that are each moved once

Change = Callable[[], AbstractContextManager[None]]


def moved_settings(graph: Graph) -> Iterator[tuple[str, Change]]:
    """(name, a context in which it holds another number), for each setting."""
    found = 0
    told: set[str] = set()
    for node in custom_nodes(graph):
        backward = own_backward(class_of_node(node))
        if backward is None:
            continue
        for mapping, key, name in _settings(inspect.unwrap(backward)):
            if name not in told and found < _MOST:
                told.add(name)
                found += 1
                yield name, _changing(mapping, key)


def _settings(function: Any) -> Iterator[tuple[dict[Any, Any], Any, str]]:
    code, scope = function.__code__, function.__globals__
    rebound: set[str] | None = None
    for name in code.co_names:
        value = scope.get(name)
        if type(value) is dict:
            for key, number in value.items():
                if type(number) in (int, float) and key in code.co_consts:
                    yield value, key, f"{name}[{key!r}]"
        elif type(value) in (int, float):
            rebound = _rebound(scope) if rebound is None else rebound
            if name in rebound:
                yield scope, name, name


def _rebound(scope: dict[str, Any]) -> set[str]:
    """Globals that a function of this module assigns to."""
    return {
        instruction.argval
        for value in list(scope.values())
        if inspect.isfunction(value) and value.__globals__ is scope
        for instruction in dis.get_instructions(value)
        if instruction.opname == "STORE_GLOBAL"
    }


def _changing(mapping: dict[Any, Any], key: Any) -> Change:
    @contextmanager
    def change() -> Iterator[None]:
        was = mapping[key]
        mapping[key] = was * 1.5 + 0.25
        try:
            yield
        finally:
            mapping[key] = was

    return change
