"""The vmap before functorch, which `autograd.grad(..., is_grads_batched=True)` uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from backproof.definition import private


def is_legacy(value: Any) -> bool:
    """Whether `value` is a batch that says it is one entry."""
    if private.is_legacy_batched is None or not isinstance(value, Tensor):
        return False
    return bool(private.is_legacy_batched(value))


def looped_over_legacy(
    run: Callable[..., Sequence[Tensor]], arguments: Sequence[Any]
) -> list[Tensor]:
    """`run` once an entry."""
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    whole = [
        torch._remove_batch_dim(a, level, 1, 0) if is_legacy(a) else None
        for a in arguments
    ]
    size = next(batch.shape[0] for batch in whole if batch is not None)
    rows = [
        run(
            *[
                a if batch is None else batch[k]
                for a, batch in zip(arguments, whole, strict=True)
            ]
        )
        for k in range(size)
    ]
    stacked = [torch.stack(list(column)) for column in zip(*rows, strict=True)]
    return [torch._add_batch_dim(tensor, 0, level) for tensor in stacked]
