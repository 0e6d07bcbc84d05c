"""Which names a statement or an expression writes to in place."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from backproof.source.binding import bindings
from backproof.source.page import dotted

_HARMLESS = {"requires_grad_", "share_memory_"}  # no value changes

_SAME_MEMORY = {"data", "T", "mT", "H", "mH", "real", "imag"}
"""Attributes of a tensor through which one writes to the tensor."""

_VIEWS = {
    *("chunk", "contiguous", "detach", "diagonal", "expand", "expand_as", "flatten"),
    *("movedim", "moveaxis", "narrow", "numpy", "permute", "ravel", "reshape"),
    *("select", "split", "squeeze", "swapaxes", "swapdims", "t", "transpose", "unbind"),
    *("unflatten", "unfold", "unsqueeze", "view", "view_as"),
}
"""Methods whose result may share memory with the tensor."""


def written_names(node: ast.AST, functions: Collection[str]) -> Iterator[str]:
    """The names that `node` itself writes to: `x`, or `ctx.buffer` for an attribute.

    Written to are `x` in `x.add_(1)`, `x += 1`, `x[0] = 1`, `f(out=x)`,
    `f(x, inplace=True)`, also through views (`x.view(-1)[0] = 1`), but not in
    `x.clone().add_(1)`. `functions` are names that were imported: `torch.relu_(x)` writes
    to its first argument.
    """
    targets: list[ast.expr] = []
    if isinstance(node, ast.AugAssign):
        targets = [node.target]
    elif isinstance(node, ast.Call):
        targets = [*_out(node), *_changed_by_call(node, functions)]
    else:
        targets = [t for t, _ in bindings(node) if isinstance(t, ast.Subscript)]
    for target in targets:
        name = _owner(target)
        if name is not None:
            yield name


def viewed_name(node: ast.expr) -> str | None:
    """The name whose memory an expression may share: `x` for `x.view(-1)[0]`.

    None for new memory, which an index by a tensor also gives; so `x[i]` is None.
    """
    indices = (n.slice for n in _chain(node) if isinstance(n, ast.Subscript))
    return _owner(node) if all(map(_is_basic, indices)) else None


def is_in_place(name: str) -> bool:
    """Whether a method of this name changes its tensor, by torch's convention."""
    underscored = name.endswith("_") and not name.endswith("__") and len(name) > 1
    return underscored and name not in _HARMLESS


def _out(call: ast.Call) -> Iterator[ast.expr]:
    for keyword in call.keywords:
        if keyword.arg == "out":
            given = keyword.value
            yield from given.elts if isinstance(given, ast.Tuple) else [given]


def _changed_by_call(call: ast.Call, functions: Collection[str]) -> Iterator[ast.expr]:
    function = call.func
    last = function.attr if isinstance(function, ast.Attribute) else dotted(function)
    if not (is_in_place(last or "") or _asks_for_in_place(call)):
        return
    name = dotted(function)
    if name is not None and name.partition(".")[0] in functions:
        yield from call.args[:1]
    elif isinstance(function, ast.Attribute):
        yield function.value


def _asks_for_in_place(call: ast.Call) -> bool:
    return any(
        word.arg == "inplace"
        and isinstance(word.value, ast.Constant)
        and word.value.value is True
        for word in call.keywords
    )


def _owner(node: ast.expr) -> str | None:
    """Whose memory `node` is: the name before indices and views; None for a new one."""
    if isinstance(node, (ast.Subscript, ast.Starred)):
        return _owner(node.value)
    if isinstance(node, ast.Attribute) and node.attr in _SAME_MEMORY:
        return _owner(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        shares = name in _VIEWS or is_in_place(name) or name in _HARMLESS
        return _owner(node.func.value) if shares else None
    return dotted(node)


def _chain(node: ast.expr) -> Iterator[ast.expr]:
    """`x.view(-1)[0]`, `x.view(-1)`, `x.view`, `x`."""
    yield node
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        yield from _chain(node.value)
    elif isinstance(node, ast.Call):
        yield from _chain(node.func)


def _is_basic(index: ast.expr) -> bool:
    """Whether an index surely gives a view: numbers, slices, `...` and `None`."""
    if isinstance(index, ast.Tuple):
        return all(map(_is_basic, index.elts))
    if isinstance(index, ast.UnaryOp):
        return _is_basic(index.operand)
    return isinstance(index, (ast.Slice, ast.Constant))
