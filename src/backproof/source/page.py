"""The text of one file, parsed once: its tree, its imports, its definitions."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from backproof.source.model import MethodNode

_WITH_BODY = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try),
    ast.Match,
)


@dataclass(frozen=True)
class Definition:
    """A class, function or lambda, and the class in whose body it stands, if any."""

    qualname: str
    node: ast.ClassDef | MethodNode
    owner: ast.ClassDef | None


@dataclass(frozen=True)
class Page:
    """A file that has been read."""

    file: str
    lines: tuple[str, ...]
    tree: ast.Module

    @cached_property
    def imported(self) -> dict[str, str]:
        """What imports anywhere in it bind: a name here -> the full name there."""
        return dict(_imports(self.tree))

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """All classes, functions and lambdas in it."""
        return tuple(_definitions(self.tree))

    def text_of(self, node: ast.stmt | ast.expr) -> str:
        """What is written, on one line; of a statement with a body its first line."""
        line = self.lines[node.lineno - 1]
        if isinstance(node, _WITH_BODY):
            return line.strip()
        if node.lineno == node.end_lineno:
            # columns of `ast` count bytes of UTF-8
            return line.encode()[node.col_offset : node.end_col_offset].decode()
        return " ".join(ast.unparse(node).split())


@lru_cache(maxsize=32)  # diagnosis asks for the same file again and again
def page(text: str, file: str) -> Page:
    """The text of `file`, parsed.

    Raises:
        SyntaxError: the text is not Python.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the reader's text, not of ours
        tree = ast.parse(text, filename=file)
    # not `splitlines`, which also breaks lines where Python does not
    return Page(file, tuple(re.split(r"\r\n|\r|\n", text)), tree)


def end_of_head(statement: ast.stmt | ast.expr) -> int:
    """The last line of a statement, or of its head where it has a body."""
    if not isinstance(statement, _WITH_BODY):
        return statement.end_lineno or statement.lineno
    if isinstance(statement, ast.Match):
        return statement.subject.end_lineno or statement.lineno
    body: list[ast.stmt] = statement.body
    return max(statement.lineno, body[0].lineno - 1)


def dotted(node: ast.expr) -> str | None:
    """`a.b.c` as text, None for anything but names joined by dots."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return None if owner is None else f"{owner}.{node.attr}"
    return None


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (top, top)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                yield alias.asname or alias.name, f"{module}.{alias.name}"


def _definitions(tree: ast.Module) -> Iterator[Definition]:
    waiting: list[tuple[ast.AST, str, ast.ClassDef | None]] = [(tree, "", None)]
    while waiting:
        node, scope, owner = waiting.pop()
        if isinstance(node, (ast.ClassDef, MethodNode)):
            qualname = scope + getattr(node, "name", "<lambda>")
            yield Definition(qualname, node, owner)
            is_class = isinstance(node, ast.ClassDef)
            scope = f"{qualname}." if is_class else f"{qualname}.<locals>."
            owner = node if isinstance(node, ast.ClassDef) else None
        children = list(ast.iter_child_nodes(node))
        waiting += [(child, scope, owner) for child in reversed(children)]
