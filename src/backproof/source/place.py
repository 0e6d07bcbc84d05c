"""Where in a method something happens, in words that fit a line."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from backproof.source.model import (
    Assignment,
    Expression,
    Method,
    Return,
    Statement,
    Write,
)
from backproof.source.path import Path, paths

_S = TypeVar("_S", bound=Statement)

_WIDTH = 70  # characters of text: a place stands on a line of 80 columns


@dataclass(frozen=True)
class Place:
    """A line of the method's file, from 1, and what is written there, shortened."""

    line: int
    text: str


def gradient_place(
    method: Method, position: int, lines: Sequence[int] = ()
) -> Place | None:
    """Where the gradient at `position` (from 0) of what backward returns is made.

    It is the last statement that gave the returned name its value or changed it in
    place, or the return itself, where that computes the gradient or the text does not
    tell. `lines` are those that ran (see `lines_run`); without them only what holds on
    every path is said.

    Returns:
        None where no return is known to be the one.
    """
    if lines:
        return _place_that_ran(method, position, lines)
    if len(method.returns) != 1:
        return None
    (only,) = method.returns
    element = _returned(only, position)
    write = _write_before(method, only, element.name) if element else None
    return _of_statement(write) if write else _of_return(only, element)


def save_place(method: Method, name: str) -> Place | None:
    """Where the method keeps `name` for backward: a save, or an attribute of ctx."""
    for save in method.saves:
        if name in save.names:
            return _of_statement(save)
    for attribute in method.attributes:
        if attribute.value is not None and attribute.value.name == name:
            return _of_statement(attribute)
    for save in method.saves:
        if any(argument.mentions(name) for argument in save.arguments):
            return _of_statement(save)
    return None


def write_place(method: Method, name: str, lines: Sequence[int] = ()) -> Place | None:
    """Where the method first writes to `name` in place, of the `lines` that ran."""
    for write in method.in_place:
        if write.name == name and (not lines or any(map(write.covers, lines))):
            return _of_statement(write)
    return None


def _place_that_ran(
    method: Method, position: int, lines: Sequence[int]
) -> Place | None:
    """The last return among `lines`, and back from there to the last write."""
    last = _last_covered(method.returns, lines)
    if last is None:
        return None
    found, index = last
    element = _returned(found, position)
    if element is not None and element.name is not None:
        writes = list(method.writes_to(element.name))
        write = _last_covered(writes, lines[:index])
        if write is not None:
            return _of_statement(write[0])
    return _of_return(found, element)


def _last_covered(
    statements: Sequence[_S], lines: Sequence[int]
) -> tuple[_S, int] | None:
    """The statement that ran last, and which of `lines` says so."""
    for index in reversed(range(len(lines))):
        for statement in reversed(statements):
            if statement.covers(lines[index]):
                return statement, index
    return None


def _returned(found: Return, position: int) -> Expression | None:
    """What the return says of `position`; a name alone stands for all positions."""
    single = found.elements[0] if len(found.elements) == 1 else None
    if single is not None and not found.is_tuple and single.name is not None:
        return single
    return found.element(position)


def _write_before(
    method: Method, found: Return, name: str | None
) -> Assignment | Write | None:
    """The write that made what `found` returns, whichever way the method went."""
    if name is None:
        return None
    before = [one for one in method.writes_to(name) if one.line < found.line]
    # `grad = None` in front says only that there may be no gradient
    telling = [one for one in before if not _is_none(one)] or before
    if not telling:
        return None
    last = max(telling, key=lambda one: one.line)
    if len(telling) == 1 or _always_runs(last, found, paths(method.node)):
        return last
    return None


def _is_none(write: Assignment | Write) -> bool:
    if isinstance(write, Write) or write.value is None:
        return False
    return write.value.is_none


def _always_runs(write: Statement, end: Return, way: dict[ast.AST, Path]) -> bool:
    """Whether `write` runs on every path to `end`."""
    to_write, to_end = way[write.node], way[end.node]
    return to_end[: len(to_write)] == to_write


def _of_statement(statement: Statement) -> Place:
    return Place(statement.line, _shortened(statement.text))


def _of_return(found: Return, element: Expression | None) -> Place:
    """The return, or the element's own line of it, or as much of it as fits."""
    if element is None or element.line == found.line:
        text = found.text
        if element is not None and len(text) > _WIDTH:
            text = _only(element, found)
        return Place(found.line, _shortened(text))
    return Place(element.line, _shortened(element.text))


def _only(element: Expression, found: Return) -> str:
    before = "…, " if element != found.elements[0] else ""
    after = ", …" if element != found.elements[-1] else ""
    return f"return {before}{element.text}{after}"


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
