"""What statements bind: pairs of a target and the value that it gets."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Binding = tuple[ast.expr, ast.expr | None]
"""A target that is no tuple, and its value: None where it gets a part of something."""


def bindings(node: ast.AST) -> Iterator[Binding]:
    """What `node` itself binds, not what is inside of it.

    `a, b = x, y` gives a pair for each; `a, b = f()` gives both without a value. Updates
    such as `a += 1` are no bindings.
    """
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _pairs(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        if node.value is not None:
            yield node.target, node.value
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield from _pairs(node.target, None)
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            if item.optional_vars is not None:
                yield from _pairs(item.optional_vars, None)


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[Binding]:
    if isinstance(target, ast.Starred):
        yield from _pairs(target.value, None)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for one, its in zip(target.elts, _parts(target.elts, value), strict=True):
            yield from _pairs(one, its)
    else:
        yield target, value


def _parts(targets: list[ast.expr], value: ast.expr | None) -> list[ast.expr | None]:
    """The value of each target, as far as the text tells."""
    if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(targets):
        starred = [isinstance(one, ast.Starred) for one in (*targets, *value.elts)]
        if not any(starred):
            return list(value.elts)
    return [None] * len(targets)
