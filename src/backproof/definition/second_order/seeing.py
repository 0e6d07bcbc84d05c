"""Ways by which a computation gets out of autograd's sight, watched.

`Escapes` notes that one was taken: what comes out of it is a constant to a derivative,
whether or not it is one. `InSight` closes them: forward runs outside autograd anyway, so
a `detach` or a `no_grad` in it says nothing about the derivative of what it computes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_DATA: Callable[..., Any] = Tensor.data.__get__  # type: ignore[attr-defined]
READS = frozenset(
    {
        Tensor.numpy,
        Tensor.__array__,
        Tensor.tolist,
        Tensor.item,
        Tensor.__float__,
        Tensor.data_ptr,
    }
)
"""Methods that give the values of a tensor to something that is not torch."""

_CUTS = frozenset({Tensor.detach, torch.detach, Tensor.detach_, _DATA})


class _State(threading.local):
    paused = False


_state = _State()


@contextmanager
def unwatched() -> Iterator[None]:
    """Run what is ours, or a kernel: no `Escapes` looks at it."""
    before, _state.paused = _state.paused, True
    try:
        yield
    finally:
        _state.paused = before


WATCHING: list[TorchFunctionMode] = []
"""Those at work, in any thread: a cheap question before a costly one."""


class Escapes(TorchFunctionMode):
    """Which way out was taken last, None for none."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: str | None = None

    def __enter__(self) -> Any:
        WATCHING.append(self)
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: object) -> None:
        WATCHING.remove(self)
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if _state.paused:
            return func(*args, **(kwargs or {}))
        if func in READS or func in _CUTS:
            name = "data" if func == _DATA else func.__name__
            if any(isinstance(a, Tensor) and a.is_floating_point() for a in args):
                self.taken = name
        elif func is torch._C._set_grad_enabled and not args[0]:
            self.taken = "no_grad"
        return func(*args, **(kwargs or {}))


class InSight(TorchFunctionMode):
    """No way out but to leave torch."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in _CUTS:
            return args[0].view_as(args[0])
        if func is torch._C._set_grad_enabled:
            return None
        return func(*args, **(kwargs or {}))
