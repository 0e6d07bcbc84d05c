"""How a member of the planted corpus says what it is.

Each file beside this one belongs to a law and is named after it, such as
`bp503_strides.py`; its members stand at module level, for compilers look sources up:

    @fault(normal(3, 4), normal(4, dtype=FLOAT32))   # this law alone must find it
    class Scale(Function): ...

    @twin(normal(3, 4), contexts="vmap")             # right, and tempting for this law
    def scale(x): ...

Positional arguments are those of the call: `normal(...)` and the like make tensors that
need a gradient, `fixed(...)` the same without one, containers of them are rebuilt, and
anything else is handed on as it is. Each call gets fresh tensors. Keyword arguments are
options of `backproof.check`. A module class is built anew for each check.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

FLOAT64, FLOAT32, BFLOAT16 = torch.float64, torch.float32, torch.bfloat16
FLOAT16 = torch.float16

_PREFIX_LENGTH = len("bp503")


@dataclass(frozen=True)
class Maker:
    """Makes one tensor; `values` draws it in float64 or complex128."""

    values: Callable[[torch.Generator], Tensor]
    dtype: torch.dtype = FLOAT64
    needs_gradient: bool = True

    def __call__(self, random: torch.Generator) -> Tensor:
        drawn = self.values(random)
        dtype = self.dtype.to_complex() if drawn.is_complex() else self.dtype
        # Not `.to`: a draw may have strides that are the point of it.
        made = torch.empty_like(drawn, dtype=dtype).copy_(drawn)
        return made.requires_grad_(self.needs_gradient)


@dataclass(frozen=True)
class Member:
    """A subject with one planted fault, or a right twin that looks suspicious.

    Attributes:
        name: unique in its file.
        op: a callable, a `torch.autograd.Function` class or an `nn.Module` class.
        code: the law of its file.
        planted: whether it is a fault.
        arguments: makers and plain values, in the order of the call.
        options: of `backproof.check`.
    """

    name: str
    op: Any
    code: str
    planted: bool
    arguments: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def subject(self) -> Any:
        """What to check; a module is built anew, from a fixed seed."""
        if not (isinstance(self.op, type) and issubclass(self.op, nn.Module)):
            return self.op
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.op()

    def inputs(self, seed: int = 0) -> tuple[Any, ...]:
        """Fresh arguments for one call."""
        random = torch.Generator().manual_seed(seed)
        return tuple(_made(argument, random) for argument in self.arguments)


def fault(*arguments: Any, **options: Any) -> Callable[[Any], Any]:
    """Put what is decorated into its module's `FAULTS`."""
    return _put("FAULTS", sys._getframe(1).f_globals, arguments, options)


def twin(*arguments: Any, **options: Any) -> Callable[[Any], Any]:
    """Put what is decorated into its module's `TWINS`."""
    return _put("TWINS", sys._getframe(1).f_globals, arguments, options)


def _put(
    collection: str,
    module: dict[str, Any],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
) -> Callable[[Any], Any]:
    code = module["__name__"].rpartition(".")[2][:_PREFIX_LENGTH].upper()

    def put(op: Any) -> Any:
        name = _name(op)
        members = module.setdefault(collection, [])
        if any(member.name == name for member in members):
            raise ValueError(f"{module['__name__']} has another {name}")
        planted = collection == "FAULTS"
        members.append(Member(name, op, code, planted, arguments, options))
        return op

    return put


def _name(op: Any) -> str:
    """Of a function or class, and of a custom operator without its namespace."""
    return getattr(op, "__name__", None) or op._name.rpartition("::")[2]


def _made(argument: Any, random: torch.Generator) -> Any:
    if isinstance(argument, Maker):
        return argument(random)
    if isinstance(argument, (list, tuple)):
        return type(argument)(_made(item, random) for item in argument)
    if isinstance(argument, dict):
        return {key: _made(item, random) for key, item in argument.items()}
    return argument


# ------------------------------------------------------------------------- arguments


def normal(*shape: int, dtype: torch.dtype = FLOAT64) -> Maker:
    """Standard normal values."""
    return Maker(lambda r: torch.randn(shape, generator=r, dtype=FLOAT64), dtype)


def uniform(
    *shape: int, low: float = 0.0, high: float = 1.0, dtype: torch.dtype = FLOAT64
) -> Maker:
    """Values spread over an interval."""

    def draw(random: torch.Generator) -> Tensor:
        unit = torch.rand(shape, generator=random, dtype=FLOAT64)
        return low + (high - low) * unit

    return Maker(draw, dtype)


def phases(*shape: int, dtype: torch.dtype = FLOAT64) -> Maker:
    """Complex normal values; `dtype` is that of the parts."""
    return Maker(
        lambda r: torch.randn(shape, generator=r, dtype=torch.complex128), dtype
    )


def integers(
    *shape: int, low: int = -3, high: int = 4, dtype: torch.dtype = FLOAT64
) -> Maker:
    """Whole numbers, so that there are ties and zeros."""
    return Maker(lambda r: torch.randint(low, high, shape, generator=r).double(), dtype)


def values(*numbers: float, dtype: torch.dtype = FLOAT64) -> Maker:
    """These very numbers."""
    return Maker(lambda r: torch.tensor(numbers, dtype=FLOAT64), dtype)


def drawn(
    draw: Callable[[torch.Generator], Tensor], dtype: torch.dtype = FLOAT64
) -> Maker:
    """What `draw` makes of a generator, strides kept."""
    return Maker(draw, dtype)


def fixed(maker: Maker) -> Maker:
    """The same without a gradient."""
    return replace(maker, needs_gradient=False)


def indices(*shape: int, below: int) -> Maker:
    """Integers from 0, without a gradient."""
    return Maker(lambda r: torch.randint(below, shape, generator=r), torch.int64, False)
