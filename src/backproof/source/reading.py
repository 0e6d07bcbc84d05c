"""Text -> the model."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

from backproof.source.binding import bindings
from backproof.source.family import function_classes
from backproof.source.model import (
    Assignment,
    Attribute,
    ContextCall,
    Expression,
    FunctionSource,
    Method,
    MethodNode,
    Return,
    Write,
)
from backproof.source.page import Page, end_of_head, page
from backproof.source.scope import own_nodes
from backproof.source.writing import viewed_name, written_names

_SAVES = ("save_for_backward", "save_for_forward")
_MARKS = ("mark_dirty", "mark_non_differentiable")


def functions_in(text: str, file: str) -> tuple[FunctionSource, ...]:
    """Every class in `text` that derives from `autograd.Function`, in order.

    `file` is only what the results call the text. Nothing is imported or run.

    Raises:
        SyntaxError: the text is not Python.
    """
    read = page(text, file)
    return tuple(
        read_class(node, qualname, read) for qualname, node in function_classes(read)
    )


def read_class(node: ast.ClassDef, qualname: str, text: Page) -> FunctionSource:
    """The model of one class, whatever its bases are."""
    methods = {
        method.name: read_method(method, text, owner=node)
        for method in _methods_of(node)
    }
    return FunctionSource(
        name=node.name,
        qualname=qualname,
        file=text.file,
        line=node.lineno,
        end_line=node.end_lineno or node.lineno,
        methods=MappingProxyType(methods),
        node=node,
    )


def read_method(
    node: MethodNode, text: Page, *, owner: ast.ClassDef | None = None
) -> Method:
    """The model of one function; `owner` is the class in whose body it stands."""
    reader = _Reader(node, text, _ctx(node, owner))
    return Method(
        name=getattr(node, "name", "<lambda>"),
        file=text.file,
        line=node.lineno,
        end_line=node.end_lineno or node.lineno,
        parameters=parameters(node.args),
        ctx=reader.ctx,
        returns=tuple(reader.returns()),
        assignments=reader.assignments,
        in_place=tuple(dict.fromkeys(reader.writes())),  # once a statement
        saves=tuple(reader.calls(_SAVES)),
        marks=tuple(reader.calls(_MARKS)),
        attributes=tuple(reader.attributes()),
        node=node,
    )


def parameters(arguments: ast.arguments) -> tuple[str, ...]:
    """Names of parameters in order, `*rest` and `**options` with their stars."""
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    if arguments.vararg is not None:
        names.append(f"*{arguments.vararg.arg}")
    names += [one.arg for one in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        names.append(f"**{arguments.kwarg.arg}")
    return tuple(names)


def _methods_of(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions in the body of a class, also those under an `if` or a `try`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child
        elif isinstance(child, (ast.stmt, ast.ExceptHandler)) and not isinstance(
            child, ast.ClassDef
        ):
            yield from _methods_of(child)


def _ctx(node: MethodNode, owner: ast.ClassDef | None) -> str | None:
    name = getattr(node, "name", "<lambda>")
    if owner is not None:
        beside = {method.name for method in _methods_of(owner)}
        if name == "vmap" or (name == "forward" and "setup_context" in beside):
            return None
    first = (*node.args.posonlyargs, *node.args.args)
    return first[0].arg if first else None


class _Reader:
    """Reads one function; each method yields one kind of thing in its text."""

    def __init__(self, node: MethodNode, text: Page, ctx: str | None) -> None:
        self.ctx = ctx
        self._node = node
        self._text = text
        self._nodes = list(own_nodes(node))
        self.assignments = tuple(self._assignments())

    def returns(self) -> Iterator[Return]:
        if isinstance(self._node, ast.Lambda):
            yield self._return(self._node.body, self._node.body)
        for node, _ in self._nodes:
            if isinstance(node, ast.Return):
                yield self._return(node, node.value)

    def _assignments(self) -> Iterator[Assignment]:
        for node, statement in self._nodes:
            for target, value in bindings(node):
                if isinstance(target, ast.Name):
                    yield Assignment(
                        **self._place(statement),
                        name=target.id,
                        value=self._expression(value),
                    )

    def writes(self) -> Iterator[Write]:
        local = {name.lstrip("*") for name in parameters(self._node.args)}
        local |= {one.name for one in self.assignments}
        functions = self._text.imported.keys() - local
        for node, statement in self._nodes:
            for name in written_names(node, functions):
                for owner in self._with_owners(name, node):
                    yield Write(**self._place(statement), name=owner)

    def calls(self, names: tuple[str, ...]) -> Iterator[ContextCall]:
        for node, statement in self._nodes:
            if isinstance(node, ast.Call) and self._of_ctx(node.func) in names:
                assert isinstance(node.func, ast.Attribute)
                arguments = (self._expression(one) for one in node.args)
                yield ContextCall(
                    **self._place(statement),
                    called=node.func.attr,
                    arguments=tuple(one for one in arguments if one is not None),
                )

    def attributes(self) -> Iterator[Attribute]:
        for node, statement in self._nodes:
            for target, value in bindings(node):
                name = self._of_ctx(target)
                if name is not None:
                    yield Attribute(
                        **self._place(statement),
                        name=name,
                        value=self._expression(value),
                    )

    def _with_owners(self, name: str, node: ast.AST) -> list[str]:
        """`name`, and the names whose memory it was given a view of."""
        names = [name]
        while (value := self._single_value(names[-1])) is not None:
            owner = viewed_name(value)
            # after `n = m`, `n += 1` is often a count and leaves `m` alone
            counts = isinstance(value, ast.Name) and isinstance(node, ast.AugAssign)
            if owner is None or owner in names or counts:
                break
            names.append(owner)
        return names

    def _single_value(self, name: str) -> ast.expr | None:
        """What `name` is given, where it is given one thing only."""
        values = [one.value for one in self.assignments if one.name == name]
        return values[0].node if len(values) == 1 and values[0] is not None else None

    def _return(self, node: ast.stmt | ast.expr, value: ast.expr | None) -> Return:
        is_tuple = isinstance(value, ast.Tuple)
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        elements = (self._expression(part) for part in parts)
        return Return(
            **self._place(node),
            elements=tuple(one for one in elements if one is not None),
            is_tuple=is_tuple,
        )

    def _of_ctx(self, node: ast.expr) -> str | None:
        """The name of an attribute of ctx, None for anything else."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return node.attr if node.value.id == self.ctx else None
        return None

    def _place(self, statement: ast.stmt | ast.expr) -> dict[str, Any]:
        return {
            "line": statement.lineno,
            "end_line": end_of_head(statement),
            "text": self._text.text_of(statement),
            "node": statement,
        }

    def _expression(self, node: ast.expr | None) -> Expression | None:
        if node is None:
            return None
        return Expression(node.lineno, self._text.text_of(node), node)
