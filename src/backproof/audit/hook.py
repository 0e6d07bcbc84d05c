"""See every call of every custom Function, also through `f = MyFn.apply` bound before.

    MyFn -> torch.autograd.Function -> _SingleLevelFunction -> _C._FunctionBase

`Function.apply` ends in `super().apply(...)`, which looks on `_SingleLevelFunction`
first. That class has none of its own, so one put there is reached by every call, and
taking it away leaves torch as it was. Our own Functions do not pass there; they have
`WATCHERS`.

Not seen: a Function without `setup_context` under torch.func (torch refuses it before),
forward called without `apply`, nodes written in C++, and what dynamo compiles: it takes
forward and backward apart, and meets the class once, while it traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from backproof.definition import private
from backproof.errors import BadInput
from backproof.function_class import OFF_THE_RECORD, WATCHERS

Watch = Callable[[type, tuple[Any, ...]], Callable[[Any], None] | None]
"""Told of a call before it runs: the class and the positional arguments.

What it returns is told the result, of Functions of torch's kind.
"""

_ADDED = "_added_by_backproof"
_relying: list[Watch] = []  # on the patch, until the last of them has ended


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Tell `watch` of every call until the end; several may watch at once.

    Raises:
        BadInput: the installed torch lacks the class that calls pass.
    """
    if private.SingleLevelFunction is None:
        raise BadInput(
            f"torch {torch.__version__} has no `_SingleLevelFunction`, through which "
            "calls of custom Functions are seen; check them one by one with "
            "`backproof check`"
        )
    if not _relying:
        _patch()
    _relying.append(watch)
    WATCHERS.append(watch)
    try:
        yield
    finally:
        WATCHERS.remove(watch)
        _relying.remove(watch)
        if not _relying:
            _unpatch()


def _patch() -> None:
    base = private.SingleLevelFunction
    before = base.__dict__.get("apply")  # somebody else's, by the same idea
    watchers, off = WATCHERS, OFF_THE_RECORD
    compiling = torch.compiler.is_compiling

    def apply(cls: Any, *arguments: Any, **keywords: Any) -> Any:
        waiting: tuple[Any, ...] = ()
        if not compiling() and not off:
            for watch in watchers:
                then = watch(cls, arguments)
                if then is not None:
                    waiting = (*waiting, then)
        if before is not None:
            result = before.__get__(None, cls)(*arguments, **keywords)
        else:
            result = super(base, cls).apply(*arguments, **keywords)
        for then in waiting:
            then(result)
        return result

    setattr(apply, _ADDED, before)
    base.apply = classmethod(apply)


def _unpatch() -> None:
    base = private.SingleLevelFunction
    ours = base.__dict__.get("apply")
    function = getattr(ours, "__func__", None)
    if not hasattr(function, _ADDED):
        return  # somebody has put theirs on top, and calls ours, which does nothing now
    before = getattr(function, _ADDED)
    if before is None:
        del base.apply
    else:
        base.apply = before
