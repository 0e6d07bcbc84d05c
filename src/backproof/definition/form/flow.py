"""Which returns of a method can be reached, and whether it can end without one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backproof.source import Method, Return

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_WITH = (ast.With, ast.AsyncWith)


def live_returns(method: Method) -> tuple[Return, ...]:
    """The returns that no statement before them makes unreachable."""
    if isinstance(method.node, ast.Lambda):
        return method.returns
    reached = set(_reached(method.node.body))
    return tuple(one for one in method.returns if one.node in reached)


def last_statements(method: Method) -> tuple[ast.stmt, ...]:
    """The simple statements after which the method ends without a return.

    Only those that are certain: branches of an `if` and the body of a `with` are looked
    into, loops, `try` and `match` are not.
    """
    if isinstance(method.node, ast.Lambda):
        return ()
    return tuple(_last(method.node.body))


def _reached(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for inner in _bodies(statement):
            yield from _reached(inner)
        if _leaves(statement):
            return


def _leaves(statement: ast.stmt) -> bool:
    """Whether nothing after it runs."""
    if isinstance(statement, ast.If):
        bodies = (statement.body, statement.orelse)
        return all(body and _leaves(body[-1]) for body in bodies)
    return isinstance(statement, _LEAVES)


def _last(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    last = body[-1]
    if isinstance(last, ast.If):
        for branch in filter(None, (last.body, last.orelse)):
            yield from _last(branch)
    elif isinstance(last, _WITH):
        yield from _last(last.body)
    elif not isinstance(last, _LEAVES):
        yield last


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The statements inside of one, in the same function."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for name in ("handlers", "cases"):
        for one in getattr(statement, name, []):
            yield one.body
