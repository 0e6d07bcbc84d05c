"""What goes in: the thing under test, and one concrete call of it.

A `Subject` is a callable with a name, a place in a source file and, where its gradient
is meant to be something else than forward's derivative, what was declared instead. A
`Case` is one set of arguments for it. Neither is ever changed by a check.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from backproof.errors import BadInput
from backproof.probe.domain import Domain
from backproof.records import Location


@dataclass(frozen=True)
class Subject:
    """The thing under test.

    Attributes:
        function: what is called with a case's arguments.
        name: what reports call it.
        where: the place of its definition, None where there is no source.
        definition: the `torch.autograd.Function` class behind it, where it is known.
        module: the `nn.Module` whose parameters count as inputs, where it is one.
        expect: a soft function whose derivative is the intended gradient.
        expect_backward: `(cotangent, *arguments) -> one gradient an argument`.
    """

    function: Callable[..., Any]
    name: str
    where: Location | None = None
    definition: type[torch.autograd.Function] | None = None
    module: torch.nn.Module | None = None
    expect: Callable[..., Any] | None = None
    expect_backward: Callable[..., Any] | None = None

    @property
    def declared(self) -> bool:
        """Whether its gradient is declared rather than forward's derivative."""
        return self.expect is not None or self.expect_backward is not None

    def parameter_names(self) -> list[str]:
        """Names of forward's positional parameters, without ctx; `*parts` for the rest."""
        source: Callable[..., Any] = self.function
        if self.definition is not None:
            source = self.definition.forward
        elif self.module is not None:
            source = self.module.forward
        try:
            parameters = list(inspect.signature(source).parameters.values())
        except (TypeError, ValueError):
            return ["*args"]
        if self.definition is not None and _takes_ctx(self.definition):
            parameters = parameters[1:]
        kind = inspect.Parameter
        return [
            f"*{p.name}" if p.kind is kind.VAR_POSITIONAL else p.name
            for p in parameters
            if p.kind not in (kind.VAR_KEYWORD, kind.KEYWORD_ONLY)
        ]


@dataclass(frozen=True)
class Case:
    """One call: positional and keyword arguments, and where each input may go.

    Tensors that require a gradient are the differentiable inputs. `domains` maps an
    input's name to its `Domain`.
    """

    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    label: str = "inputs"
    domains: Mapping[str, Domain] = field(default_factory=dict)


def subject_of(
    target: Any,
    *,
    name: str | None = None,
    expect: Callable[..., Any] | None = None,
    expect_backward: Callable[..., Any] | None = None,
) -> Subject:
    """The subject for a Function class, a module (or its class), or any callable.

    Raises:
        BadInput: `target` is none of these, or a module class that needs arguments.
    """
    module: torch.nn.Module | None = None
    definition: type[torch.autograd.Function] | None = None
    function: Callable[..., Any]
    defined: Any
    if isinstance(target, type) and issubclass(target, torch.nn.Module):
        try:
            target = target()
        except TypeError as error:
            raise BadInput(
                f"{target.__name__} is a module class that cannot be built without "
                f"arguments ({error}); give an instance, such as "
                f"`layer = {target.__name__}(...)`"
            ) from error
    if isinstance(target, torch.nn.Module):
        module, function, defined = target, target, type(target)
    elif isinstance(target, type) and issubclass(target, torch.autograd.Function):
        definition, function, defined = target, target.apply, target
    elif callable(target):
        definition = _function_class(target)
        function, defined = target, definition or inspect.unwrap(target)
    else:
        raise BadInput(
            f"cannot check {target!r} of type {type(target).__name__}: give an "
            "autograd.Function, a callable or an nn.Module"
        )
    return Subject(
        function=function,
        name=name or _name(target, definition),
        where=_location(defined),
        definition=definition,
        module=module,
        expect=expect,
        expect_backward=expect_backward,
    )


def _function_class(target: Any) -> type[torch.autograd.Function] | None:
    """The Function behind `SomeFunction.apply`, None for any other callable."""
    owner = getattr(target, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, torch.autograd.Function):
        return owner
    return None


def _takes_ctx(definition: type[torch.autograd.Function]) -> bool:
    inherited = torch.autograd.Function.setup_context
    return definition.setup_context is inherited


def _name(target: Any, definition: type | None) -> str:
    if definition is not None:
        return definition.__name__
    if isinstance(target, functools.partial):
        return _name(target.func, None)
    return getattr(target, "__name__", type(target).__name__)


def _location(defined: Any) -> Location | None:
    while isinstance(defined, functools.partial):
        defined = defined.func
    try:
        file = inspect.getsourcefile(defined)
        line = inspect.getsourcelines(defined)[1]
    except (OSError, TypeError):
        return None
    return Location(file, line) if file else None
