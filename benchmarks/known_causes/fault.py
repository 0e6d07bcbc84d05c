"""A fault of which cause and place are known: what diagnosis ought to say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Op = Callable[..., Any]


@dataclass(frozen=True)
class Fault:
    """A Function with one mistake, and what the mistake is.

    `wrong(*args)` is a boolean mask in the shape of the wrong input, true where its
    gradient is wrong; None where a place has no meaning. `shows(op, seed, dtype)` is
    there when the fault is not to be seen in one plain call: it runs `op`, which is
    `function.apply` or `reference`, in the variation that shows the fault and returns
    the gradient of the wrong input, or None.
    """

    name: str
    causes: tuple[str, ...]
    function: type[torch.autograd.Function]
    inputs: Callable[[int, torch.dtype], tuple[Any, ...]]
    wrong_input: str
    wrong: Callable[..., torch.Tensor] | None
    reference: Op
    dtypes: tuple[torch.dtype, ...] = (torch.float64, torch.float32)
    shows: Callable[[Op, int, torch.dtype], torch.Tensor | None] | None = None
    also_wrong: tuple[str, ...] = ()


def everywhere(position: int) -> Callable[..., torch.Tensor]:
    """The mask for a gradient that is wrong in every element of this argument."""
    return lambda *args: torch.ones_like(args[position], dtype=torch.bool)
