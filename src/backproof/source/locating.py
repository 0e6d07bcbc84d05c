"""Where in a text a live code object comes from."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from types import CodeType

from backproof.source.model import MethodNode
from backproof.source.page import Page


def located(
    code: CodeType, text: Page
) -> tuple[MethodNode, ast.ClassDef | None] | None:
    """The definition that `code` was compiled from, and the class around it, if any.

    None where the text holds no function of this name, line and number of parameters
    (it was edited since), or several lambdas that cannot be told apart.
    """
    found = [
        (one.node, one.owner)
        for one in text.definitions
        if not isinstance(one.node, ast.ClassDef) and _fits(one.node, code)
    ]
    if len(found) > 1:
        nodes = list(_around(_columns(code), (node for node, _ in found)))
        found = [one for one in found if one[0] in nodes]
    return found[0] if len(found) == 1 else None


def _fits(node: MethodNode, code: CodeType) -> bool:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    first = min([node.lineno, *(one.lineno for one in decorators)])
    named = getattr(node, "name", "<lambda>") == code.co_name
    positional = len(node.args.posonlyargs) + len(node.args.args)
    same = (first, positional) == (code.co_firstlineno, code.co_argcount)
    return named and same


_Span = tuple[int, int]  # line and column


def _columns(code: CodeType) -> list[tuple[_Span, _Span]]:
    """Beginning and end of what each instruction was made from."""
    spans = []
    for line, end_line, column, end_column in code.co_positions():
        if None not in (line, end_line, column, end_column):
            begin, end = (line or 0, column or 0), (end_line or 0, end_column or 0)
            if begin < end:  # the instruction that enters a function has no width
                spans.append((begin, end))
    return spans


def _around(
    spans: list[tuple[_Span, _Span]], nodes: Iterable[MethodNode]
) -> Iterator[MethodNode]:
    """The smallest node whose body holds all of `spans`; none where there are none."""
    bodies = {}
    for node in nodes:
        body = node.body if isinstance(node, ast.Lambda) else node
        begin = (body.lineno, body.col_offset)
        end = (body.end_lineno or 0, body.end_col_offset or 0)
        if spans and all(begin <= a and b <= end for a, b in spans):
            bodies[node] = begin
    if bodies:
        yield max(bodies, key=bodies.__getitem__)  # the innermost begins last
