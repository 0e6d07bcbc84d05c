"""What backward returns, as far as its text is certain."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from backproof.definition.form.counting import Counting
from backproof.definition.form.flow import live_returns
from backproof.definition.form.model import Part
from backproof.source import Expression, Return


@dataclass(frozen=True)
class Gradients:
    """One return of backward.

    Attributes:
        written: the return.
        count: how many gradients it gives.
        values: those that are written out and surely not None, by position.
        is_list: whether they stand in a list, which torch takes for one gradient.
    """

    written: Return
    count: int
    values: dict[int, Expression]
    is_list: bool


def certain_gradients(part: Part) -> Iterator[Gradients]:
    """The returns whose count is certain and which give a gradient at all.

    One that gives only None is left out: it stands for "not differentiable", or for a
    case that never comes, and nobody counted.
    """
    method, taken = part.text, part.parameters
    if method is None or taken is None:
        return
    counting = Counting(method, taken.names[1:])
    for one in live_returns(method):
        node = value_of(one)
        count = None if node is None else counting.count(node)
        gives = not all(counting.is_none(e.node) for e in one.elements)
        if node is not None and count is not None and gives:
            values = {
                position: element
                for position, element in enumerate(one.elements)
                if counting.is_value(element.node)
            }
            yield Gradients(one, count, values, isinstance(node, ast.List))


def gives_gradient(part: Part) -> bool:
    """Whether it may return a gradient; one that only raises or gives None does not."""
    method = part.text
    if method is None:
        return True
    counting = Counting(method)
    returned = (element for one in live_returns(method) for element in one.elements)
    return not all(counting.is_none(element.node) for element in returned)


def value_of(one: Return) -> ast.expr | None:
    """The expression that is returned."""
    if isinstance(one.node, ast.Return):
        return one.node.value
    return one.node if isinstance(one.node, ast.expr) else None
