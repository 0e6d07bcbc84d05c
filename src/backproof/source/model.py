"""What is known of a Function from its text: the words of diagnosis and of rules.

Lines count from 1 in the file. A `text` stands on one line, as it was written where that
already was one line. Nodes are `ast`'s, with the file's own line numbers; they take no
part in comparisons.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

MethodNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Expression:
    """One expression: an element of a return, an argument, a value."""

    line: int
    text: str
    node: ast.expr = field(compare=False, repr=False)

    @property
    def name(self) -> str | None:
        """The name that it is, None where it is more than a bare name."""
        return self.node.id if isinstance(self.node, ast.Name) else None

    @property
    def is_starred(self) -> bool:
        """Whether it stands for any number of values, as in `*rest`."""
        return isinstance(self.node, ast.Starred)

    @property
    def is_none(self) -> bool:
        """Whether it is the word `None`."""
        return isinstance(self.node, ast.Constant) and self.node.value is None

    def mentions(self, name: str) -> bool:
        """Whether `name` occurs anywhere in it."""
        found = (n.id for n in ast.walk(self.node) if isinstance(n, ast.Name))
        return name in found


@dataclass(frozen=True)
class Statement:
    """A statement, or the head of one that has a body.

    `line` and `end_line` are its first and last line, both included.
    """

    line: int
    end_line: int
    text: str
    node: ast.stmt | ast.expr = field(compare=False, repr=False)

    def covers(self, line: int) -> bool:
        """Whether this line of the file belongs to it."""
        return self.line <= line <= self.end_line


@dataclass(frozen=True)
class Return(Statement):
    """A `return`, or the body of a lambda.

    `elements` are those of a tuple that is written out; any other expression is one
    element, whatever it may turn out to be, and a bare `return` has none.
    """

    elements: tuple[Expression, ...]
    is_tuple: bool

    def element(self, position: int) -> Expression | None:
        """What is returned at `position`, from 0; None where the text does not tell.

        A single expression that is no tuple in the text tells for position 0 only.
        """
        known = self.elements[: position + 1]
        if len(known) <= position or any(one.is_starred for one in known):
            return None
        return known[position]


@dataclass(frozen=True)
class Assignment(Statement):
    """A statement that gives `name` a new value.

    `value` is None where the name gets a part of something: by unpacking, by a loop.
    """

    name: str
    value: Expression | None


@dataclass(frozen=True)
class Write(Statement):
    """A statement that changes in place what `name` means: `x`, `ctx.buffer`.

    A write through a view that has a name of its own (`flat = x.view(-1)`) is one write
    to each of them. A copy that torch only sometimes makes (`reshape`) counts as a view.
    """

    name: str


@dataclass(frozen=True)
class ContextCall(Statement):
    """A call of a method of ctx, such as `ctx.save_for_backward(x, w)`."""

    called: str
    arguments: tuple[Expression, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments that are bare names, in order."""
        return tuple(one.name for one in self.arguments if one.name is not None)


@dataclass(frozen=True)
class Attribute(Statement):
    """An attribute of ctx that is set: `ctx.name = value`.

    `value` is None where it gets a part of something, by unpacking.
    """

    name: str
    value: Expression | None


@dataclass(frozen=True)
class Method:
    """One method, plain function or lambda, and what happens in its own scope.

    What functions inside of it do is theirs. Everything is in the order of the text.

    Attributes:
        name: `<lambda>` for a lambda.
        file: as it was given, or as the live code names it.
        parameters: as written, `*rest` and `**options` with their stars.
        ctx: the name of the first parameter; None for a forward beside a
            `setup_context`, for `vmap`, and where there is no parameter.
        saves: calls of `ctx.save_for_backward` and `ctx.save_for_forward`.
        marks: calls of `ctx.mark_dirty` and `ctx.mark_non_differentiable`.
    """

    name: str
    file: str
    line: int
    end_line: int
    parameters: tuple[str, ...]
    ctx: str | None
    returns: tuple[Return, ...]
    assignments: tuple[Assignment, ...]
    in_place: tuple[Write, ...]
    saves: tuple[ContextCall, ...]
    marks: tuple[ContextCall, ...]
    attributes: tuple[Attribute, ...]
    node: MethodNode = field(compare=False, repr=False)

    def writes_to(self, name: str) -> Iterator[Assignment | Write]:
        """Whatever gives `name` a value or changes it in place, in the text's order."""
        writes: list[Assignment | Write] = [*self.assignments, *self.in_place]
        found = (write for write in writes if write.name == name)
        yield from sorted(found, key=lambda write: write.line)


@dataclass(frozen=True)
class FunctionSource:
    """A class that derives from `autograd.Function`, as it is written.

    `methods` holds those of its own body. What a live class inherits is `method_of` the
    inherited method.
    """

    name: str
    qualname: str
    file: str
    line: int
    end_line: int
    methods: Mapping[str, Method]
    node: ast.ClassDef = field(compare=False, repr=False)
