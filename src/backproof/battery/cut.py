"""Where backward leaves autograd's sight, so that a second backward misses a term."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from backproof.battery.place import Places
from backproof.records import Location

_CALLS = {"detach", "item", "numpy", "tolist"}
_BLOCKS = {"no_grad", "inference_mode"}


@dataclass(frozen=True)
class Cut:
    """One such place.

    Attributes:
        words: what happens there.
        remedy: one sentence.
        where: the line.
    """

    words: str
    remedy: str
    where: Location


def cuts(places: Places) -> Iterator[Cut]:
    """What the text of backward says, the plainest first; nothing where it says nothing."""
    code = places.backward
    if code is None:
        return
    for node in ast.walk(code.method.node):
        found = _cut(node)
        if found:
            yield Cut(
                f"{found} in backward is a constant to a second backward",
                f"Leave out {found}, or decorate backward with `@once_differentiable`, "
                "so that a second derivative is refused.",
                code.at_node(node),
            )
    yield from _intermediates(places)


def _cut(node: ast.AST) -> str:
    """The call, attribute or block by which the graph is cut, in the user's words."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _CALLS and not node.args:
            return f"`{ast.unparse(node)}`"
    elif isinstance(node, ast.Attribute) and node.attr == "data":
        return f"`{ast.unparse(node)}`"
    elif isinstance(node, ast.With):
        for item in node.items:
            text = ast.unparse(item.context_expr)
            if text.partition("(")[0].rpartition(".")[2] in _BLOCKS:
                return f"`with {text}`"
    return ""


def _intermediates(places: Places) -> Iterator[Cut]:
    """What forward saves that is neither handed to it nor returned by it."""
    returned = {
        element.name
        for code in places.forward
        for one in code.method.returns
        for element in one.elements
    }
    for code in places.forward:
        method = code.method
        handed = {name.lstrip("*") for name in method.parameters}
        kept = [(a.name, s.line) for s in method.saves for a in s.arguments]
        kept += [(a.value.name if a.value else None, a.line) for a in method.attributes]
        for name, line in kept:
            if name is None or name in handed or name in returned:
                continue
            values = [a.value for a in method.assignments if a.name == name]
            if not any(value is not None and _computes(value.node) for value in values):
                continue
            yield Cut(
                f"`{name}` is an intermediate of forward, and a constant to a second "
                "backward",
                f"Compute `{name}` again in backward from saved inputs and outputs, or "
                "decorate backward with `@once_differentiable`.",
                code.at_line(line),
            )


def _computes(node: ast.expr) -> bool:
    """Whether an expression calculates, rather than reads a shape or a number."""
    return not isinstance(node, (ast.Constant, ast.Attribute, ast.Subscript))
