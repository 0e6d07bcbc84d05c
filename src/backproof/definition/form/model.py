"""A class as its author left it: which methods it has, and what each of them takes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import FunctionType, MappingProxyType
from typing import Any

from backproof.source import Method, method_of

METHODS = ("forward", "setup_context", "backward", "vjp", "jvp", "vmap")

_LIBRARY = ("backproof.definition.", "torch.autograd.function.", "torch._C.")
"""Modules of the base classes, whose defaults are not the author's."""

_DEEPEST = 100  # wrappers around wrappers; one that wraps itself ends here
_PRODUCERS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@dataclass(frozen=True)
class Place:
    """A line of a file, from 1, and what is written there."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Parameters:
    """What may be given by position.

    Attributes:
        names: in order.
        least: how many a caller has to give.
        most: how many it may give; None where there is no bound, or where what is given
            by keyword blurs it.
    """

    names: tuple[str, ...]
    least: int
    most: int | None

    def without_first(self, count: int = 1) -> Parameters:
        """Those after the first `count`."""
        most = None if self.most is None else max(self.most - count, 0)
        return Parameters(self.names[count:], max(self.least - count, 0), most)

    def take(self, count: int) -> bool:
        """Whether a call with `count` arguments binds."""
        return self.least <= count and (self.most is None or count <= self.most)


@dataclass(frozen=True)
class Part:
    """One method of the class.

    Attributes:
        held: what the class body holds: a staticmethod, a function, anything.
        function: what was written, None where something around it may change what it
            takes or returns, and where it is no plain function.
        source: its text, where there is one; also of what hides behind a decorator.
    """

    name: str
    held: Any
    function: FunctionType | None = field(repr=False)
    source: Method | None = field(repr=False)

    @property
    def parameters(self) -> Parameters | None:
        """Those that torch's arguments go to; None where that is not certain."""
        if self.function is None:
            return None
        found = _parameters(self.function)
        is_bound = isinstance(self.held, classmethod)
        return found.without_first() if is_bound else found

    @property
    def text(self) -> Method | None:
        """Its text, where it tells for certain what a call does."""
        return None if self.function is None else self.source

    @property
    def first(self) -> str | None:
        """The name of the first parameter that torch gives something to."""
        parameters = self.parameters
        return parameters.names[0] if parameters and parameters.names else None

    @property
    def place(self) -> Place | None:
        """The line of its `def`."""
        if self.source is None:
            return None
        return Place(self.source.file, self.source.line, head(self.source))


@dataclass(frozen=True)
class Form:
    """A class and its methods, own and inherited.

    `attributes` holds everything that its author wrote in it or in a base of it, the
    nearest first.
    """

    cls: type
    attributes: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        """As messages call it."""
        return self.cls.__name__

    @cached_property
    def parts(self) -> Mapping[str, Part]:
        """The methods that torch knows, by name."""
        written = {name: self.attributes.get(name) for name in METHODS}
        return {
            name: part_of(name, held)
            for name, held in written.items()
            if held is not None
        }

    @property
    def has_setup(self) -> bool:
        """Whether forward is the spelling without ctx."""
        return "setup_context" in self.parts

    @property
    def gradient(self) -> Part | None:
        """`backward`, or `vjp`, its other name."""
        return self.parts.get("backward") or self.parts.get("vjp")

    @cached_property
    def inputs(self) -> Parameters | None:
        """What a caller gives to `apply`; None where that is not certain."""
        forward = self.parts.get("forward")
        found = forward.parameters if forward else None
        if found is None or "apply" in self.attributes:
            return None
        if "cls" in found.names[:1] or "ctx" in found.names[1:]:
            return None  # a base, whose descendants hand it their ctx
        if not self.has_setup:
            return found.without_first()
        # torch fills in defaults before it calls such a forward
        given = len(found.names)
        return Parameters(found.names, given if found.most else found.least, found.most)


def form_of(cls: type) -> Form:
    """The form of a class, without what its library's base classes define."""
    attributes: dict[str, Any] = {}
    for owner in cls.__mro__:
        if not _is_library(owner):
            attributes = {**vars(owner), **attributes}
    if hasattr(getattr(cls, "apply", None), "written_as"):  # ours, of a base
        attributes.pop("apply", None)
    return Form(cls, MappingProxyType(attributes))


def part_of(name: str, held: Any) -> Part:
    """One method, as the class body holds it."""
    return Part(name, held, _written(held), method_of(held))


def layers(held: Any) -> Iterator[Any]:
    """`held`, and what it wraps, from the outside in."""
    for _ in range(_DEEPEST):
        yield held
        if isinstance(held, (staticmethod, classmethod)):
            held = held.__func__
        elif hasattr(held, "__wrapped__"):
            held = held.__wrapped__
        else:
            return


def is_of_torch(function: FunctionType) -> bool:
    """Whether torch defines it, as it does `once_differentiable`'s wrapper."""
    module = str(function.__globals__.get("__name__", ""))
    return module.partition(".")[0] == "torch"


def head(method: Method) -> str:
    """`def forward(ctx, x)`, on one line."""
    arguments = ast.unparse(method.node.args)
    if isinstance(method.node, ast.Lambda):
        return f"lambda {arguments}"
    return f"def {method.name}({arguments})"


def _is_library(owner: type) -> bool:
    return owner is object or f"{owner.__module__}.".startswith(_LIBRARY)


def _written(held: Any) -> FunctionType | None:
    """The innermost function, if each layer around it hands everything through."""
    for layer in layers(held):
        if isinstance(layer, (staticmethod, classmethod)):
            continue
        if not isinstance(layer, FunctionType):
            return None
        if not hasattr(layer, "__wrapped__"):
            return None if layer.__code__.co_flags & _PRODUCERS else layer
        if not is_of_torch(layer):
            return None
    return None


def _parameters(function: FunctionType) -> Parameters:
    # not `inspect.signature`, which evaluates annotations from Python 3.14 on
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    least = len(names) - len(function.__defaults__ or ())
    others = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    is_open = bool(others) or code.co_kwonlyargcount > 0
    return Parameters(names, least, None if is_open else len(names))
