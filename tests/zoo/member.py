"""How a member of the zoo says what it is.

    @guilty("BP101", normal(64))        # this code must convict it, in every type
    class Doubled(Tanh): ...

    @innocent(normal(64))               # no code may
    class Tanh(Function): ...

Arguments are made anew for each type: `normal(...)` and the like make tensors that need
a gradient, `fixed(...)` one that needs none, and anything else is handed on as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

FLOAT64, FLOAT32, BFLOAT16 = torch.float64, torch.float32, torch.bfloat16
FINE = (FLOAT64, FLOAT32)
ALL = (*FINE, BFLOAT16)


@dataclass(frozen=True)
class Maker:
    """Makes one tensor in the type that is asked for."""

    values: Callable[[torch.Generator], torch.Tensor]
    needs_gradient: bool = True

    def __call__(self, dtype, random):
        x = self.values(random)
        if dtype.is_floating_point and x.is_complex():
            dtype = dtype.to_complex()
        return x.to(dtype).requires_grad_(self.needs_gradient)


@dataclass(frozen=True)
class Member:
    """A target, what to call it with, and the code that must convict it, if any."""

    name: str
    target: Any
    arguments: Sequence[Any]
    code: str | None
    dtypes: Sequence[torch.dtype]
    options: dict[str, Any] = field(default_factory=dict)

    def in_type(self, dtype, seed=0):
        """What to check in this type: the target and its arguments."""
        random = torch.Generator().manual_seed(seed)
        arguments = tuple(
            a(dtype, random) if isinstance(a, Maker) else a for a in self.arguments
        )
        is_module = isinstance(self.target, type) and issubclass(self.target, nn.Module)
        return (self.target().to(dtype) if is_module else self.target), *arguments


GUILTY: list[Member] = []
INNOCENT: list[Member] = []


def guilty(code, *arguments, dtypes=ALL, **options):
    """Put a target into the zoo as one that `code` must convict."""
    return _put(GUILTY, code, arguments, dtypes, options)


def innocent(*arguments, dtypes=ALL, **options):
    """Put a target into the zoo as one that must be acquitted."""
    return _put(INNOCENT, None, arguments, dtypes, options)


def _put(into, code, arguments, dtypes, options):
    def put(target):
        name = target.__name__
        if any(member.name == name for member in into):
            raise ValueError(f"there is another {name}")
        into.append(Member(name, target, arguments, code, dtypes, options))
        return target

    return put


# ------------------------------------------------------------------------- arguments


def normal(*shape):
    """Standard normal values."""
    return Maker(lambda r: torch.randn(shape, generator=r, dtype=torch.float64))


def uniform(*shape, low=0.0, high=1.0):
    """Values spread over an interval."""

    def draw(random):
        unit = torch.rand(shape, generator=random, dtype=torch.float64)
        return low + (high - low) * unit

    return Maker(draw)


def integers(*shape, low=-3, high=4):
    """Whole numbers, so that there are ties and zeros."""
    return Maker(lambda r: torch.randint(low, high, shape, generator=r).double())


def phases(*shape):
    """Complex normal values."""
    return Maker(lambda r: torch.randn(shape, generator=r, dtype=torch.complex128))


def values(*numbers):
    """These very numbers."""
    return Maker(lambda r: torch.tensor(numbers, dtype=torch.float64))


def fixed(maker):
    """The same without a gradient."""
    return Maker(maker.values, needs_gradient=False)
