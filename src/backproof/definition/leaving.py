"""Methods that leave torch, where only torch can follow.

Under a transform or on tensors without values a call such as `numpy()` fails with words
about storage, and under a tracer of real tensors it does not even fail: the numbers of
that one run become constants of the program. Both are turned into an error that says
what to declare.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from backproof.definition import private
from backproof.definition.second_order.seeing import READS
from backproof.errors import Undeclared

_MARKS = (
    "data pointer",
    "doesn't have storage",
    "storage of BatchedTensorImpl",
    "numpy() is not supported",
    "copy out of meta tensor",
)


@contextmanager
def within_torch(owner: str, method: str) -> Iterator[None]:
    """Run a method of `owner` that nothing but torch's operations may be part of.

    Raises:
        Undeclared: the method reads the memory of a tensor.
    """
    try:
        watch = _Watch(owner, method) if _recording() else nullcontext()
        with watch, _constants_allowed():
            yield
    except (RuntimeError, NotImplementedError) as error:
        if isinstance(error, Undeclared) or not any(m in str(error) for m in _MARKS):
            raise
        raise _left(owner, method, str(error).split("\n", 1)[0]) from error


@contextmanager
def _constants_allowed() -> Iterator[None]:
    """Let a method use a tensor of its module among tensors without values."""
    find = private.active_fake_mode
    mode: Any = find() if find is not None else None
    if mode is None:
        yield
        return
    before, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        yield
    finally:
        mode.allow_non_fake_inputs = before


def _recording() -> bool:
    """Whether a tracer writes down what is computed with real tensors."""
    tracer: Any = sys.modules.get("torch.fx.experimental.proxy_tensor")
    return tracer is not None and tracer.get_proxy_mode() is not None


class _Watch(TorchFunctionMode):
    def __init__(self, owner: str, method: str) -> None:
        super().__init__()
        self._names = owner, method

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in READS and type(args[0]) is Tensor:  # a fake one gives a symbol
            raise _left(*self._names, f"it calls `{func.__name__}`")
        return func(*args, **(kwargs or {}))


def _left(owner: str, method: str, why: str) -> Undeclared:
    return Undeclared(
        f"{owner}: {method} leaves torch, which cannot be followed here ({why}); declare "
        "the computation with `backproof.external(...)`, or write it in torch operations"
    )
