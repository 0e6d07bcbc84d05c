"""Where in the user's file something happens: one place for all laws.

    subject ──> its Function's methods ──> Code     (text beside live function)
                what runs              ──> lines ──> Location

A place is named where it is known and left out where it is not: no source, executed
strings, native code.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from backproof import dispatcher, tree
from backproof.battery.code import Code, code_of
from backproof.errors import BadInput
from backproof.function_class import class_of_node, own_backward, own_method
from backproof.records import Location
from backproof.source import Method, calls_out, gradient_place, lines_run, save_place
from backproof.trial import BackwardRaised, Graph, Refused, Trial
from backproof.trial.custom_nodes import custom_nodes

_AHEAD = 4  # nodes between a Function and an input that only hand a gradient on
_HANDS_ON = ("AccumulateGrad", "Clone", "View", "Alias", "ToCopy")


class Places:
    """The text of the Function behind a subject, and where in it things happen.

    Args:
        trial: the subject on the case with which something went wrong.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial, self._subject = trial, trial.subject

    @functools.cached_property
    def graph(self) -> Graph | None:
        """A graph of its own, None where forward refuses now. Costs 1 forward.

        A place is not worth a verdict: whatever fails here only leaves it unknown.
        """
        try:
            return self.trial.record()
        except (BadInput, Refused):
            return None

    @functools.cached_property
    def definition(self) -> type[Any] | None:
        """The Function behind the subject: its own, else the only one in the graph."""
        if self._subject.definition is not None or self._subject.operator is not None:
            return self._subject.definition
        if self.graph is None:
            return None
        classes = {class_of_node(node) for node in custom_nodes(self.graph)}
        return classes.pop() if len(classes) == 1 else None

    @functools.cached_property
    def backward(self) -> Code | None:
        """Backward and its text."""
        if self._subject.operator is not None:
            return code_of(dispatcher.backward(self._subject.operator))
        return code_of(own_backward(self.definition))

    @functools.cached_property
    def jvp(self) -> Code | None:
        """`jvp` and its text."""
        return code_of(own_method(self.definition, "jvp"))

    @functools.cached_property
    def forward(self) -> tuple[Code, ...]:
        """Forward and its text, and those of `setup_context` where there is one."""
        if self._subject.operator is not None:
            written = [code_of(dispatcher.implementation(self._subject.operator))]
        elif self.definition is None:
            written = []
        else:
            names = ("forward", "setup_context")
            written = [code_of(own_method(self.definition, name)) for name in names]
        return tuple(one for one in written if one is not None)

    @property
    def both(self) -> tuple[Code, ...]:
        """Everything that is written: forward's first."""
        return (*self.forward, *([self.backward] if self.backward else []))

    # -------------------------------------------------------------------- gradients

    def gradient(self, name: str) -> Location | None:
        """Where backward makes the gradient of the input `name`, or backward itself.

        Costs 1 forward and 1 backward, which is watched.
        """
        if self.backward is None:
            return None
        position = self._position(name)
        if position is None:
            return self.returned()
        method = self.backward.method
        place = gradient_place(method, position, self.lines) or gradient_place(
            method, position
        )
        return self.backward.at(place) if place else self.backward.head

    def returned(self) -> Location | None:
        """The return of backward that ran, as far as it is known."""
        if self.backward is None:
            return None
        returns = self.backward.method.returns
        ran = [r for r in returns if any(r.covers(line) for line in self.lines)]
        if len(ran) == 1 or len(returns) == 1:
            return self.backward.at_line((ran or returns)[0].line)
        return self.backward.head

    def outside(self) -> str:
        """What backward calls that is neither Python nor torch's, in a line, or nothing."""
        if self.backward is None:
            return ""
        found = calls_out(self.backward.method, self.backward.function)
        if self.lines:
            found = tuple(p for p in found if p.line in self.lines)
        if not found:
            return ""
        told = [f"line {place.line}: `{place.text}`" for place in found]
        return f"in the extension called at {' and '.join(told)}"

    @functools.cached_property
    def lines(self) -> Sequence[int]:
        """The lines of backward that run, in order."""
        graph, trial = self.graph, self.trial
        if self.backward is None or graph is None:
            return []

        def pull() -> None:
            cotangent = trial.represent(torch.ones_like(graph.values))
            with suppress(BackwardRaised):
                trial.pull_tensors(graph, trial.split(cotangent))

        return lines_run(self.backward.function, pull)

    def jvp_return(self) -> Location | None:
        """The return of `jvp`, or the line of its `def`."""
        if self.jvp is None:
            return None
        returns = self.jvp.method.returns
        return self.jvp.at_line(returns[0].line) if len(returns) == 1 else self.jvp.head

    def cotangent_name(self, output: int = 0) -> str:
        """What backward calls the cotangent of an output; empty where it is not known."""
        if self.backward is None:
            return ""
        names = self.backward.method.parameters[1:]
        known = names[: output + 1]
        if len(known) <= output or known[-1].startswith("*"):
            return ""
        return known[-1]

    def _position(self, name: str) -> int | None:
        """The number of the input among what backward returns."""
        if self._subject.definition is not None or self._subject.operator is not None:
            arguments = [n for n, _ in self.trial.named_arguments]
            found = [k for k, n in enumerate(arguments) if _is_in(name, n)]
            return found[0] if found else None
        if self.graph is None:
            return None
        leaves = {
            id(leaf): i.name
            for i, leaf in zip(self.trial.inputs, self.graph.leaves, strict=True)
        }
        found = [
            position
            for node in custom_nodes(self.graph)
            for position, leaf in _positions(node)
            if leaves.get(id(leaf)) == name
        ]
        return found[0] if len(set(found)) == 1 else None

    # ------------------------------------------------------------------------ saves

    def saved(self, name: str) -> Location | None:
        """Where forward keeps its argument or variable `name`."""
        for code in self.forward:
            place = save_place(code.method, name)
            if place is not None:
                return code.at(place)
        return None

    def first_save(self) -> Location | None:
        """Where forward first saves something for backward."""
        for code in self.forward:
            for save in code.method.saves:
                return code.at_line(save.line)
        return None

    def saved_name(self, number: int) -> str:
        """What forward calls the tensor that it saves at `number`, from 0."""
        for code in self.forward:
            saves = [s for s in code.method.saves if s.called == "save_for_backward"]
            if len(saves) == 1:
                arguments = saves[0].arguments
                known = arguments[: number + 1]
                if len(known) > number and not any(a.is_starred for a in known):
                    return known[-1].text
        return ""

    def attribute(self, name: str) -> Location | None:
        """Where forward sets `ctx.name`."""
        for code in self.forward:
            for one in code.method.attributes:
                if one.name == name:
                    return code.at_line(one.line)
        return None

    def kept_as(self, name: str) -> str:
        """What forward calls the value that it keeps as `ctx.name`."""
        for code in self.forward:
            for one in code.method.attributes:
                if one.name == name and one.value is not None:
                    return one.value.name or ""
        return ""

    def mention(self, name: str, *, backward: bool = False) -> Location | None:
        """The first statement of forward, or of backward, that says `name`."""
        codes = [self.backward] if backward else list(self.forward)
        for code in codes:
            if code is None:
                continue
            for node in ast.walk(code.method.node):
                if (
                    isinstance(node, (ast.Name, ast.Attribute))
                    and _dotted(node) == name
                ):
                    return code.at_node(node)
        return None

    def forward_return(self, output: int = 0) -> Location | None:
        """Where forward makes an output, its return, or itself."""
        for code in self.forward[:1]:
            place = gradient_place(code.method, output)
            return code.at(place) if place is not None else code.head
        return None

    # ----------------------------------------------------------------------- raises

    def raised(self, error: BaseException) -> Location | None:
        """The line of backward, or of forward, that an exception passed through."""
        trace = (error.__cause__ or error).__traceback__
        codes = ([self.backward] if self.backward else []) + list(self.forward)
        for code in codes:
            found = code.raised_in(trace)
            if found is not None:
                return found
        return None


def called_at(codes: Iterable[Code], names: Collection[str]) -> Location | None:
    """The first call of a function that has one of these last names."""
    for code in codes:
        for node in ast.walk(code.method.node):
            if isinstance(node, ast.Call) and isinstance(
                node.func, (ast.Name, ast.Attribute)
            ):
                last = _dotted(node.func).rpartition(".")[2]
                if last in names:
                    return code.at_node(node)
    return None


def forwards_in(graph: Graph) -> list[Code]:
    """Forward of every Function that a graph has been recorded through."""
    classes = dict.fromkeys(class_of_node(node) for node in custom_nodes(graph))
    found = (code_of(own_method(one, "forward")) for one in classes)
    return [code for code in found if code is not None]


def attributes_holding(node: Any, tensor: Tensor) -> Iterator[str]:
    """The attributes of a Function's ctx that are `tensor`, or live in its memory."""
    for name, value in dict(getattr(node, "__dict__", {})).items():
        if isinstance(value, Tensor) and (
            value is tensor or _same_memory(value, tensor)
        ):
            yield name


def _same_memory(a: Tensor, b: Tensor) -> bool:
    if a.layout is not torch.strided or b.layout is not torch.strided:
        return False
    return bool(a.numel()) and (
        a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    )


def _positions(node: Any) -> Iterator[tuple[int, Tensor]]:
    """(position among forward's arguments, leaf) of the leaves that a node is handed.

    Edges stand for tensors only, positions for all arguments; those that need a gradient
    come in the same order in both.
    """
    needed = [
        k
        for k, needs in enumerate(node.needs_input_grad)
        for _, need in tree.leaves(needs, "")  # a container's is a container
        if need
    ]
    edges = [parent for parent, _ in node.next_functions if parent is not None]
    if len(needed) != len(edges):
        return
    for position, parent in zip(needed, edges, strict=True):
        leaf = _leaf(parent)
        if leaf is not None:
            yield position, leaf


def _is_in(name: str, argument: str) -> bool:
    """Whether `name` is an argument's, or that of a tensor inside of one."""
    return name == argument or name.startswith((f"{argument}[", f"{argument}."))


def _leaf(node: Any) -> Tensor | None:
    """The leaf that a node hands its gradient to as it is."""
    for _ in range(_AHEAD):
        if node is None or not any(w in type(node).__name__ for w in _HANDS_ON):
            return None
        if hasattr(node, "variable"):
            found: Tensor = node.variable
            return found
        parents = [parent for parent, _ in node.next_functions]
        node = parents[0] if len(parents) == 1 else None
    return None


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def method_mentions(method: Method, name: str) -> bool:
    """Whether the text of a method says `name` anywhere but in its parameters."""
    body = getattr(method.node, "body", [])
    nodes = body if isinstance(body, list) else [body]
    return any(
        isinstance(n, ast.Name) and n.id == name for top in nodes for n in ast.walk(top)
    )
