"""What a function writes beside its own variables: globals, classes, ctx."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backproof.battery.code import Code
from backproof.records import Location

_CHANGING = {  # methods that change the list, set, dictionary or queue they are called on
    *("append", "extend", "insert", "pop", "popleft", "appendleft", "remove", "clear"),
    *("add", "discard", "update", "setdefault", "popitem", "sort", "reverse"),
}


def outer_writes(code: Code) -> Iterator[tuple[str, Location]]:
    """(name, place) of what outlives the call and is no attribute of ctx.

    Such as `Scale.factor = factor`, `CACHE["x"] = x`, `last` under `global last`, and
    `_buffer.copy_(x)`.
    """
    own = {one.name for one in code.method.assignments}
    own |= {name.lstrip("*") for name in code.method.parameters}
    declared = {
        name
        for node in ast.walk(code.method.node)
        if isinstance(node, (ast.Global, ast.Nonlocal))
        for name in node.names
    }
    own -= declared
    for name, node in _writes(code):
        root = name.partition(".")[0]
        bound = isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        if root not in own and (not bound or name in declared):
            yield name, code.at_node(node)


def context_writes(code: Code) -> Iterator[tuple[str, Location]]:
    """(attribute, place) of what a function changes on its ctx."""
    for name, node in _writes(code):
        root, _, rest = name.partition(".")
        if root == code.method.ctx and rest:
            yield rest.partition(".")[0], code.at_node(node)


def _writes(code: Code) -> Iterator[tuple[str, ast.AST]]:
    """(dotted name, node) of whatever is assigned, deleted or changed, in order."""
    found: list[tuple[str, ast.AST]] = []
    for node in ast.walk(code.method.node):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            if isinstance(node.ctx, (ast.Store, ast.Del)):
                found.append((_name(node), node))
        elif (changed := _changed_by_call(node)) is not None:
            found.append((_name(changed), changed))
    found += [
        (write.name, write.node)
        for write in code.method.in_place
        if isinstance(write.node, ast.AST)
    ]
    by_line = {(getattr(node, "lineno", 0), name): node for name, node in found if name}
    yield from ((name, by_line[line, name]) for line, name in sorted(by_line))


def _changed_by_call(node: ast.AST) -> ast.expr | None:
    """What a call such as `items.pop()` changes."""
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(called, ast.Attribute) and called.attr in _CHANGING:
        return called.value
    return None


def _name(node: ast.expr) -> str:
    """`Scale.factor` for `Scale.factor[0]`; empty where it begins with no name."""
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    if isinstance(node, ast.Attribute):
        before = _name(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""
