"""What goes in: the thing under test, and one concrete call of it.

A `Subject` is a callable with a name, a place in a source file and, where its gradient
is meant to be something else than forward's derivative, what was declared instead. A
`Case` is one set of arguments for it. Neither is ever changed by a check.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from backproof import dispatcher
from backproof.errors import BadInput
from backproof.function_class import (
    Defined,
    can_be_called,
    class_of_apply,
    is_function,
    takes_ctx,
)
from backproof.probe.domain import Domain
from backproof.records import Location


@dataclass(frozen=True)
class Subject:
    """The thing under test.

    Attributes:
        function: what is called with a case's arguments.
        name: what reports call it.
        where: the place of its definition, None where there is no source.
        definition: the custom Function behind it, torch's kind or ours, where known.
        module: the `nn.Module` whose parameters count as inputs, where it is one.
        operator: the overload, where it is an operator of torch's dispatcher.
        expect: a soft function whose derivative is the intended gradient.
        expect_backward: `(cotangent, *arguments) -> one gradient an argument`.
        reference: plain code with the same meaning, forward included.
        noise: the relative distance between repeats that it owns up to; 0 for none.
    """

    function: Callable[..., Any]
    name: str
    where: Location | None = None
    definition: type[Any] | None = None
    module: torch.nn.Module | None = None
    operator: torch._ops.OpOverload | None = None
    expect: Callable[..., Any] | None = None
    expect_backward: Callable[..., Any] | None = None
    reference: Callable[..., Any] | None = None
    noise: float = 0.0

    @property
    def declared(self) -> bool:
        """Whether its gradient is declared rather than forward's derivative."""
        return self.expect is not None or self.expect_backward is not None

    def parameter_names(self) -> list[str]:
        """Names of forward's positional parameters, without ctx; `*parts` for the rest."""
        if self.operator is not None:
            return dispatcher.parameter_names(self.operator)
        source: Callable[..., Any] = self.function
        if self.definition is not None:
            source = self.definition.forward
        elif self.module is not None:
            source = self.module.forward
        try:
            parameters = list(inspect.signature(source).parameters.values())
        except (TypeError, ValueError):
            return ["*args"]
        if self.definition is not None and takes_ctx(self.definition):
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
    input's name to its `Domain`. `resized` makes the same call at another size, where
    the user's own function of inputs takes one.
    """

    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    label: str = "inputs"
    domains: Mapping[str, Domain] = field(default_factory=dict)
    resized: Callable[[int], Case] | None = field(default=None, compare=False)


def subject_of(
    target: Any,
    *,
    name: str | None = None,
    expect: Callable[..., Any] | None = None,
    expect_backward: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    noise: float = 0.0,
) -> Subject:
    """The subject for a Function class, a module (or its class), or any callable.

    Objects of `torch.library.custom_op` and of `torch.ops` are callables that tell
    their parameters' names.

    Raises:
        BadInput: `target` is none of these, a module class that needs arguments, or an
            operator without a backward; or `noise` is no relative distance.
    """
    if not isinstance(noise, (int, float)) or not 0 <= noise < math.inf:
        raise BadInput(
            f"noise is the relative distance between equal calls, such as 1e-6, and "
            f"cannot be {noise!r}"
        )
    identified = _identified(target)
    if expect is None and expect_backward is None and isinstance(target, Defined):
        expect = target.expect
    return Subject(
        function=identified.function,
        name=name or identified.name,
        where=identified.where,
        definition=identified.definition,
        module=identified.module,
        operator=identified.operator,
        expect=expect,
        expect_backward=expect_backward,
        reference=reference,
        noise=noise,
    )


def _identified(target: Any) -> Subject:
    """What `target` says of itself."""
    if dispatcher.is_operator(target):
        return _operator(target)
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
        kind = type(target)
        return Subject(target, _name(target), _location(kind), module=target)
    if is_function(target):
        return _function(target)
    if callable(target):
        definition = class_of_apply(target)
        if definition is not None:
            where = _location(definition)
            return Subject(target, definition.__name__, where, definition)
        return Subject(target, _name(target), _location(inspect.unwrap(target)))
    raise BadInput(
        f"cannot check {target!r} of type {type(target).__name__}: give a "
        "Function class, a callable, an nn.Module or a custom operator"
    )


def _operator(target: Any) -> Subject:
    overload = dispatcher.overload_of(target)
    name = dispatcher.qualified_name(overload)
    if dispatcher.lacks_formula(overload):
        raise BadInput(
            f"{name}: no autograd formula is registered, so there is no backward to "
            "check; add one with `register_autograd`"
        )
    made_from = dispatcher.implementation(overload)
    where = _location(made_from) if made_from is not None else None
    return Subject(overload, name, where, operator=overload)


def _function(target: type[Any]) -> Subject:
    if not can_be_called(target):
        raise BadInput(
            f"{target.__name__} cannot be called: it lacks a forward; give a class "
            "that has one"
        )
    return Subject(target.apply, target.__name__, _location(target), target)


def _name(target: Any) -> str:
    if isinstance(target, functools.partial):
        return _name(target.func)
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
