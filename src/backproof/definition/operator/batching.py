"""One level of vmap, without the containers that `torch.vmap` takes care of.

Most of what a small vmap costs is looking through containers for tensors, and here
tensors come in flat lists. Where torch lacks a name, `torch.vmap` does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.library import register_vmap

from backproof.definition import private

Dims = Sequence[int | None]


class Info(NamedTuple):
    """What a rule for vmap is told, as torch tells it."""

    batch_size: int
    randomness: str


def vmapped(
    entry: Callable[[Sequence[Any]], Sequence[Tensor]],
    tensors: Sequence[Tensor | None],
    dims: Dims,
    randomness: str,
) -> list[Tensor]:
    """`entry` for the whole batch; its results have the batch dimension in front.

    Only where `can_vmap` says so.
    """
    with _functorch_keys():
        if not private.can_batch():
            over = torch.vmap(
                lambda *part: tuple(entry(part)),
                in_dims=tuple(dims),
                randomness=randomness,
            )
            return list(over(*tensors))
        private.load_decompositions()
        pairs = list(zip(tensors, dims, strict=True))
        size = next(t.shape[d] for t, d in pairs if t is not None and d is not None)
        level = private.enter_vmap(size, randomness)
        try:
            batch = [
                t if d is None else private.add_batch(t, d, level) for t, d in pairs
            ]
            results = entry(batch)
            return [private.remove_batch(result, level, size, 0) for result in results]
        finally:
            private.leave_vmap()


def implement_batching(
    library: Any, name: str, operator: torch._ops.OpOverload, rule: Callable[..., Any]
) -> None:
    """Give an operator of our schema its rule under vmap.

    Args:
        library: that it belongs to.
        name: of the operator in it.
        operator: itself.
        rule: `(info, in_dims, tensors, ints, floats, form) -> (results, out_dims)`.
    """
    if not private.can_batch():
        register_vmap(
            operator,
            lambda info, in_dims, *call: rule(info, in_dims[0], *call),
            lib=library,
        )
        return

    def kernel(
        keyset: Any, tensors: Sequence[Tensor], ints: Any, floats: Any, form: str
    ) -> list[Tensor]:
        interpreter = private.current_interpreter()
        level = interpreter.level()
        pairs = [private.unwrap_batch(tensor, level) for tensor in tensors]
        whole = [tensor for tensor, _ in pairs]
        dims = [dim for _, dim in pairs]
        with torch._C._ExcludeDispatchKeyGuard(_BATCHED):
            if all(dim is None for dim in dims):
                unbatched: list[Tensor] = operator(whole, ints, floats, form)
                return unbatched
            info = Info(interpreter.batch_size(), interpreter.randomness())
            results, out_dims = rule(info, dims, whole, ints, floats, form)
        return [
            result if dim is None else private.add_batch(result, dim, level)
            for result, dim in zip(results, out_dims, strict=True)
        ]

    library.impl(name, kernel, "FuncTorchBatched", with_keyset=True)


_KEY = torch._C.DispatchKey.FuncTorchBatched
_BATCHED = torch._C.DispatchKeySet(_KEY)


def can_vmap() -> bool:
    """Whether a level of vmap may be started here.

    Not inside another level of torch.func that is at work: its keys are switched off,
    and operations would reach for the memory of a batch that has none.
    """
    if not _keys_are_off():
        return True
    return private.ForceKeys is not None and not private.functorch_active()


def _keys_are_off() -> bool:
    return private.excluded_keys is None or private.excluded_keys().has(_KEY)


@contextmanager
def _functorch_keys() -> Iterator[None]:
    """Let vmap dispatch again, in a kernel that a mode runs."""
    if not _keys_are_off():
        yield
        return
    off = private.excluded_keys()
    for key in private.functorch_keys:
        off = off.remove(key)
    with private.ForceKeys(private.included_keys(), off):
        yield
