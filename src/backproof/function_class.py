"""What counts as a custom Function: a class of torch's kind, or one of ours.

The two differ where code looks closely. torch's base class has every optional method
itself, ours has none of them. A node of torch's kind knows the class that was written; a
node of ours belongs to a torch Function that was built from that class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

import torch

BASES: list[type] = [torch.autograd.Function]
"""What such a class derives from; the module that defines another base adds it."""

WATCHERS: list[Callable[[type, tuple[Any, ...]], Callable[[Any], None] | None]] = []
"""Told of each eager call of a Function before it runs: its class and its arguments.

One that returns something wants to be called with the result, where that can be had.

A Function of ours tells them itself; torch's own kind does where an audit has made it.
"""


OFF_THE_RECORD: list[None] = []
"""One entry for each `off_the_record` that lasts; nobody is told while there are any."""


@contextmanager
def off_the_record() -> Iterator[None]:
    """What is called within, in any thread, is no call of the user's program.

    Several may overlap, in threads too: watchers come and go beside it.
    """
    OFF_THE_RECORD.append(None)
    try:
        yield
    finally:
        OFF_THE_RECORD.pop()


class Defined:
    """A callable that stands for an operation with a gradient of its own.

    Attributes:
        expect: a soft function whose derivative its gradient is meant to be; None for
            the derivative of its own values.
    """

    expect: Callable[..., Any] | None = None


def is_function(thing: Any) -> TypeGuard[type]:
    """Whether it is a class that writes down a forward and its backward."""
    return isinstance(thing, type) and issubclass(thing, tuple(BASES))


def is_torchs(cls: type) -> bool:
    """Whether torch itself runs it, so that torch's own limits are its limits."""
    return issubclass(cls, torch.autograd.Function)


def can_be_called(cls: type) -> bool:
    """Whether it has an `apply`; a base class of the user's own may lack a forward."""
    return hasattr(cls, "apply")


def own_method(cls: type | None, name: str) -> Callable[..., Any] | None:
    """A method that an author wrote; None where there is none, or only torch's default."""
    method: Callable[..., Any] | None = getattr(cls, name, None)
    return None if method is getattr(torch.autograd.Function, name, None) else method


def own_backward(cls: type | None) -> Callable[..., Any] | None:
    """The backward that an author wrote, under either of its names."""
    return own_method(cls, "backward") or own_method(cls, "vjp")


def takes_ctx(cls: type) -> bool:
    """Whether forward is handed ctx, rather than a `setup_context` beside it."""
    return own_method(cls, "setup_context") is None


def class_of_node(node: Any) -> type | None:
    """The Function whose call a node of the graph stands for, as it was written."""
    built = getattr(type(node), "_forward_cls", None)
    written: type | None = getattr(built, "written_as", built)
    return written


def class_of_apply(function: Any) -> type | None:
    """The Function that `function` is the `apply` of, None for any other callable."""
    for owner in ("__self__", "written_as"):
        found = getattr(function, owner, None)
        if is_function(found):
            return found
    return None
