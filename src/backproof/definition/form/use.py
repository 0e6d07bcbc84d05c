"""How a method treats its first parameter: as a ctx, or as something that no ctx is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backproof.definition.form.model import Part
from backproof.source import Method

_CTX_ONLY = {
    *("save_for_backward", "save_for_forward", "mark_dirty", "needs_input_grad"),
    *("mark_non_differentiable", "set_materialize_grads", "saved_tensors"),
}


def treats_as_ctx(part: Part) -> str | None:
    """What it does to its first parameter that only a ctx allows, as it is written."""
    name, method = part.first, part.text
    if name is None or method is None:
        return None
    attributes = (n for n in ast.walk(method.node) if isinstance(n, ast.Attribute))
    for node in attributes:
        if node.attr in _CTX_ONLY and _is(node.value, name):
            return f"{name}.{node.attr}"
    return None


def treats_as_argument(part: Part) -> str | None:
    """What it does to its first parameter that no ctx allows, as it is written.

    Nothing is certain where the name gets another value. A ctx has whatever attributes
    it is given, so one that is read counts only where nothing could have set it.
    """
    name, method = part.first, part.text
    if name is None or method is None or any(method.writes_to(name)):
        return None
    found = next(_computed_with(method, name), None)
    if found is None and not hands_over(method, name):
        found = next(_missing_attributes(method, name), None)
    return None if found is None else " ".join(ast.unparse(found).split())


def hands_over(method: Method, name: str) -> bool:
    """Whether `name` goes anywhere else, where more may be done with it."""
    owners = {
        id(node.value)
        for node in ast.walk(method.node)
        if isinstance(node, ast.Attribute)
    }
    return any(
        _is(node, name) and id(node) not in owners for node in ast.walk(method.node)
    )


def sets(method: Method, owner: str, attribute: str) -> bool:
    """Whether `owner.attribute` gets a value anywhere in it."""
    return any(
        isinstance(node, ast.Attribute)
        and not isinstance(node.ctx, ast.Load)
        and node.attr == attribute
        and _is(node.value, owner)
        for node in ast.walk(method.node)
    )


def _computed_with(method: Method, name: str) -> Iterator[ast.expr]:
    """Arithmetic and indices: `x * 2`, `-x`, `x[0]`."""
    for node in ast.walk(method.node):
        if isinstance(node, ast.BinOp):
            operands = [node.left, node.right]
        elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            operands = [node.operand]
        elif isinstance(node, ast.Subscript):
            operands = [node.value]
        else:
            continue
        if any(_is(operand, name) for operand in operands):
            yield node


def _missing_attributes(method: Method, name: str) -> Iterator[ast.expr]:
    known = _ctx_attributes()
    for node in ast.walk(method.node):
        if isinstance(node, ast.Attribute) and _is(node.value, name):
            is_read = isinstance(node.ctx, ast.Load) and node.attr not in known
            if is_read and not sets(method, name, node.attr):
                yield node


def _ctx_attributes() -> set[str]:
    from torch.autograd import Function

    return set(dir(Function))


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
