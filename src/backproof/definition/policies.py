"""What a class asks for by name, beyond its methods."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils import _pytree as pytree

from backproof.definition.written import Written


@dataclass(frozen=True)
class Policies:
    """`backproof.Function` says what each means."""

    autocast: str | None = None
    contiguous: bool = False
    device_guard: bool = False
    deterministic: bool = True

    @classmethod
    def of(cls, owner: Any) -> Policies:
        """Those of a class."""
        return cls(
            owner.autocast, owner.contiguous, owner.device_guard, owner.deterministic
        )

    def inside(self, written: Written) -> Written:
        """The methods, as they run under these policies."""
        if self.autocast is None and not self.contiguous:
            return written
        backward = self._backward(written.backward)
        return replace(
            written,
            forward=self._forward(written.forward),
            backward=backward,
            decorated_backward=(
                once_differentiable(backward) if written.once else backward
            ),
        )

    def around(self, apply: Callable[..., Any], name: str) -> Callable[..., Any]:
        """A route's `apply`, with its arguments made ready."""
        if self == Policies():
            return apply

        def ready(*arguments: Any) -> Any:
            if not self.deterministic:
                _alert(name)
            device = _device(arguments)
            cast = self.autocast is not None and torch.is_autocast_enabled(device.type)
            if cast:
                arguments = self._cast(arguments, device.type)
            if self.contiguous:
                arguments = _each(_plain_memory, arguments)
            with _without_autocast(device.type) if cast else nullcontext():
                if not self.device_guard or torch.compiler.is_compiling():
                    return apply(*arguments)
                with _on(device):
                    return apply(*arguments)

        return ready

    def _cast(self, arguments: Sequence[Any], device: str) -> tuple[Any, ...]:
        if self.autocast == "float32":
            dtype = torch.float32
        elif self.autocast == "lower":
            dtype = torch.get_autocast_dtype(device)
        else:
            leaves = [a for a in pytree.tree_leaves(list(arguments)) if _eligible(a)]
            dtypes = [leaf.dtype for leaf in leaves] or [torch.float32]
            dtype = functools.reduce(torch.promote_types, dtypes)
        return _each(lambda t: t.to(dtype) if _eligible(t) else t, arguments)

    def _forward(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        if self.autocast is None:
            return forward

        def uncast(ctx: Any, *arguments: Any) -> Any:
            with _without_autocast(_device(arguments).type):
                return forward(ctx, *arguments)

        return uncast

    def _backward(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        def prepared(ctx: Any, *cotangents: Any) -> Any:
            if self.contiguous:
                cotangents = _each(_plain_memory, cotangents)
            if self.autocast is None:
                return backward(ctx, *cotangents)
            with _without_autocast(_device(cotangents).type):
                return backward(ctx, *cotangents)

        return prepared


def _plain_memory(tensor: Tensor) -> Tensor:
    """Contiguous, with a lazy conjugation or negation carried out."""
    return tensor.resolve_conj().resolve_neg().contiguous()


def _eligible(value: Any) -> bool:
    """Whether autocast would touch it: it leaves float64 alone."""
    return (
        isinstance(value, Tensor)
        and value.is_floating_point()
        and value.dtype is not torch.float64
    )


def _each(change: Callable[[Tensor], Tensor], values: Sequence[Any]) -> tuple[Any, ...]:
    changed = []
    for value in values:
        if isinstance(value, Tensor):
            changed.append(change(value))
        elif isinstance(value, (list, tuple, dict)):
            changed.append(pytree.tree_map_only(Tensor, change, value))
        else:
            changed.append(value)
    return tuple(changed)


def _device(values: Sequence[Any]) -> torch.device:
    for value in values:
        if isinstance(value, Tensor):
            return value.device
    for leaf in pytree.tree_leaves(list(values)):
        if isinstance(leaf, Tensor):
            return leaf.device
    return torch.device("cpu")


def _without_autocast(device: str) -> torch.autocast:
    return torch.autocast(device, enabled=False)


@contextmanager
def _on(device: torch.device) -> Iterator[None]:
    """Make `device` the current one of its kind; the CPU and meta have no such thing."""
    if device.index is None:
        yield
        return
    module = torch.get_device_module(device.type)
    if not hasattr(module, "device"):
        yield
        return
    with module.device(device.index):
        yield


def _alert(name: str) -> None:
    if not torch.are_deterministic_algorithms_enabled():
        return
    message = (
        f"{name} is declared `deterministic = False` and deterministic algorithms were "
        "asked for with `torch.use_deterministic_algorithms(True)`"
    )
    if not torch.is_deterministic_algorithms_warn_only_enabled():
        raise RuntimeError(
            f"{message}; use `warn_only=True`, or an operation that is deterministic"
        )
    warnings.warn(message, stacklevel=4)
