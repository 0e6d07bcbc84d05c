"""The nodes that run in a function's own frame, each with the statement it is part of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backproof.source.model import MethodNode

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def own_nodes(method: MethodNode) -> Iterator[tuple[ast.AST, ast.stmt | ast.expr]]:
    """Each node of the body and its innermost statement, in the order of the text.

    Functions, classes and lambdas inside are left out. The body of a lambda counts as
    one statement.
    """
    body: list[ast.stmt | ast.expr] = []
    body += [method.body] if isinstance(method, ast.Lambda) else method.body
    waiting: list[tuple[ast.AST, ast.stmt | ast.expr]] = [
        (one, one) for one in reversed(body)
    ]
    while waiting:
        node, statement = waiting.pop()
        if isinstance(node, _SCOPES):
            continue
        if isinstance(node, ast.stmt):
            statement = node
        yield node, statement
        children = list(ast.iter_child_nodes(node))
        waiting += [(child, statement) for child in reversed(children)]
