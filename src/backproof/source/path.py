"""Which branches lead to a statement."""

from __future__ import annotations

import ast

from backproof.source.model import MethodNode

Path = tuple[tuple[ast.AST, str], ...]
"""Branches from the outside in: a statement and which of its bodies."""

_ALWAYS_ENTERED = (ast.With, ast.AsyncWith)
_BODIES = ("body", "orelse", "handlers", "finalbody", "cases")


def paths(method: MethodNode) -> dict[ast.AST, Path]:
    """The path to each statement of a method. `with` is no branch."""
    found: dict[ast.AST, Path] = {}
    if isinstance(method, ast.Lambda):
        return {method.body: ()}
    waiting: list[tuple[ast.AST, Path]] = [(one, ()) for one in method.body]
    while waiting:
        node, path = waiting.pop()
        found[node] = path
        for name in _BODIES:
            branch = path
            if not isinstance(node, _ALWAYS_ENTERED):
                branch = (*path, (node, name))
            body = getattr(node, name, [])
            waiting += [(one, branch) for one in body if isinstance(body, list)]
    return found
