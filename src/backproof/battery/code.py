"""A live function beside its text: where in the user's file one of its lines stands."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any

from backproof.records import Location
from backproof.source import Method, Place, method_of, shown_file
from backproof.source.plain_function import plain_function

_WIDTH = 70  # characters of text, as the places of `source` have


@dataclass(frozen=True)
class Code:
    """A function that the user has written, and its text.

    Attributes:
        function: as it is called.
        method: its text.
        code: what its frames run.
    """

    function: Any
    method: Method
    code: CodeType

    @property
    def head(self) -> Location:
        """The line of its `def`."""
        return Location(shown_file(self.method.file), self.method.line)

    def at(self, place: Place) -> Location:
        """A place that `source` has found, in the file."""
        return Location(shown_file(self.method.file), place.line, text=place.text)

    def at_line(self, line: int) -> Location:
        """A line of the file, with the statement that it belongs to."""
        text = _statement(self.method, line)
        return Location(shown_file(self.method.file), line, text=text)

    def at_node(self, node: ast.AST) -> Location:
        """The statement that `node` is a part of."""
        return self.at_line(getattr(node, "lineno", self.method.line))

    def running_in(self, frame: FrameType | None) -> Location | None:
        """The line that it runs in `frame` or in a caller of that; None if in none."""
        while frame is not None:
            if frame.f_code is self.code:
                return self.at_line(frame.f_lineno)
            frame = frame.f_back
        return None

    def raised_in(self, trace: TracebackType | None) -> Location | None:
        """The line of it that an exception passed through."""
        found = None
        while trace is not None:
            if trace.tb_frame.f_code is self.code:
                found = self.at_line(trace.tb_lineno)
            trace = trace.tb_next
        return found


def code_of(function: Any) -> Code | None:
    """The text of `function`, None where there is none to be shown.

    A method that only passes on to a function of the user's says so in `stands_for`.
    """
    function = getattr(function, "stands_for", function)
    plain, method = plain_function(function), method_of(function)
    if plain is None or method is None:
        return None
    return Code(function, method, plain.__code__)


def _statement(method: Method, line: int) -> str:
    """What the innermost statement at `line` says; of one with a body its head."""
    around = [
        node
        for node in ast.walk(method.node)
        if isinstance(node, ast.stmt)
        and node is not method.node
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    if not around:
        return ""
    node = max(around, key=lambda n: (n.lineno, n.col_offset))
    first = linecache.getline(method.file, node.lineno)
    if hasattr(node, "body"):
        text = first.strip()
    elif node.lineno == node.end_lineno:
        # columns of `ast` count bytes of UTF-8
        text = first.encode()[node.col_offset : node.end_col_offset].decode()
    else:
        text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
