"""Arguments for the faults: the same numbers in every precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor, dtype

Draw = Callable[[Generator, dtype], Tensor]


def drawn(*arguments: Any) -> Callable[[int, dtype], tuple[Any, ...]]:
    """The arguments for a seed and a dtype: draws are drawn, all else is as it is."""

    def inputs(seed: int, dtype: dtype) -> tuple[Any, ...]:
        # Far from the seeds that others draw their cotangents with: a cotangent that is
        # equal to an input hides a transposition.
        generator = Generator().manual_seed(910_000 + seed)
        return tuple(
            argument(generator, dtype) if callable(argument) else argument
            for argument in arguments
        )

    return inputs


def normal(*shape: int, mean: float = 0.0, scale: float = 1.0) -> Draw:
    """Normal and requiring grad."""

    def draw(generator: Generator, dtype: dtype) -> Tensor:
        wide = torch.complex128 if dtype.is_complex else torch.float64
        values = torch.randn(shape, generator=generator, dtype=wide) * scale + mean
        return values.to(dtype).requires_grad_()

    return draw


def uniform(low: float, high: float, *shape: int) -> Draw:
    """Uniform between two bounds and requiring grad."""

    def draw(generator: Generator, dtype: dtype) -> Tensor:
        values = torch.rand(shape, generator=generator, dtype=torch.float64)
        return (low + (high - low) * values).to(dtype).requires_grad_()

    return draw


def plain(draw: Draw) -> Draw:
    """The same without grad."""
    return lambda generator, dtype: draw(generator, dtype).detach()


def indices(high: int, *shape: int) -> Draw:
    """Integers below `high`."""
    return lambda generator, dtype: torch.randint(high, shape, generator=generator)


def flags(share: float, *shape: int) -> Draw:
    """Booleans, this share of them true."""
    return lambda generator, dtype: torch.rand(shape, generator=generator) < share


def keep(share: float, *shape: int) -> Draw:
    """Zeros and ones of the dtype, this share of them one."""
    return lambda generator, dtype: flags(share, *shape)(generator, dtype).to(dtype)


def signs(*shape: int) -> Draw:
    """Plus and minus one of the dtype."""
    return lambda generator, dtype: keep(0.5, *shape)(generator, dtype) * 2 - 1
