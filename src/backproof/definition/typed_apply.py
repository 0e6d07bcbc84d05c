"""What type checkers and editors see as `apply`: forward's signature, without ctx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, overload

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class _WithSetup(Protocol[P, R_co]):
    @staticmethod
    def forward(*args: P.args, **kwargs: P.kwargs) -> R_co: ...

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> Any: ...


class _WithContext(Protocol[P, R_co]):
    @staticmethod
    def forward(ctx: Any, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class Apply:
    """`SomeFunction.apply`, typed by the class that it is read from."""

    @overload
    def __get__(
        self, instance: object, owner: type[_WithSetup[P, R_co]]
    ) -> Callable[P, R_co]: ...

    @overload
    def __get__(
        self, instance: object, owner: type[_WithContext[P, R_co]]
    ) -> Callable[P, R_co]: ...

    def __get__(self, instance: object, owner: Any) -> Any:
        raise AttributeError(f"{owner.__name__} has no `apply`: it lacks a forward")
