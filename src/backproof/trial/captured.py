"""Tensors that a call reads without being handed them: from closures and globals."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from backproof import tree
from backproof.function_class import class_of_apply, class_of_node, is_function
from backproof.trial.custom_nodes import custom_nodes, every_node
from backproof.trial.trial import Graph, Trial

_DEEP = 4  # functions that call functions


def captured(trial: Trial, graph: Graph | None = None) -> Iterator[tuple[str, Tensor]]:
    """(name, tensor) for every tensor that the code reaches beside its arguments.

    With a graph also what Functions inside of the subject reach, be it an argument.
    """
    told: set[int] = set()
    seen: set[int] = set()
    for root, label in (*_roots(trial), *(_roots_inside(graph) if graph else ())):
        for name, tensor in _reach(root, label, seen, _DEEP):
            if id(tensor) not in told:
                told.add(id(tensor))
                yield name, tensor


def known_to_autograd(graph: Graph) -> set[int]:
    """The ids of the leaves that the outputs' graph leads to."""
    return {id(n.variable) for n in every_node(graph) if hasattr(n, "variable")}


def _roots(trial: Trial) -> Iterator[tuple[Any, str]]:
    definition = trial.subject.definition
    if definition is not None:
        yield definition.forward, ""
    elif trial.subject.module is None:
        yield trial.subject.function, ""
    for name, leaf in zip(trial.names, trial.leaves, strict=True):
        if callable(leaf) and not isinstance(leaf, type):
            yield leaf, name


def _roots_inside(graph: Graph) -> Iterator[tuple[Any, str]]:
    """The forward of each Function that ran, and the callables that it keeps on ctx."""
    for node in custom_nodes(graph):
        yield getattr(class_of_node(node), "forward", None), ""
        for name, value in dict(getattr(node, "__dict__", {})).items():
            if callable(value) and not isinstance(value, (type, nn.Module)):
                yield value, name


def _reach(
    thing: Any, label: str, seen: set[int], deep: int
) -> Iterator[tuple[str, Tensor]]:
    """Tensors that `thing`, a callable or a value, holds or looks up."""
    if isinstance(thing, Tensor):
        yield label, thing
        return
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, nn.Module):
        for name, parameter in thing.named_parameters():
            yield f"{label}.{name}" if label else name, parameter
    elif isinstance(thing, (tuple, list, dict)):
        found = tree.leaves(thing, label)
        yield from ((n, leaf) for n, leaf in found if isinstance(leaf, Tensor))
    elif isinstance(thing, functools.partial):
        bound = [(label or "a bound argument", part) for part in thing.args]
        for name, part in (*bound, *thing.keywords.items(), (label, thing.func)):
            yield from _reach(part, name, seen, deep)
    elif deep:
        for name, value in _looked_up(_plain_function(thing)):
            yield from _reach(value, name, seen, deep - 1)


def _plain_function(thing: Any) -> Any:
    """The Python function that runs when `thing` is called, None where there is none."""
    written = thing if is_function(thing) else class_of_apply(thing)
    if written is not None:
        thing = getattr(written, "forward", None)
    if inspect.isroutine(thing):
        thing = inspect.unwrap(thing)
    return thing if inspect.isfunction(thing) else getattr(thing, "__func__", None)


def _looked_up(function: Any) -> Iterator[tuple[str, Any]]:
    """The globals, closure cells and defaults that a function names, and its owner."""
    if function is None:
        return
    code = function.__code__
    for name in code.co_names:
        if name in function.__globals__:
            value = function.__globals__[name]
            if not inspect.ismodule(value):
                yield name, value
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet
            continue
    for value in function.__defaults__ or ():
        if isinstance(value, Tensor):
            yield "a default argument", value
