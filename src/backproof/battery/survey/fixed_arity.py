"""A function of any number of tensors as one of exactly so many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def with_arity(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """`function` with `count` named parameters, for tracers that do not take `*args`."""
    names = ", ".join(f"x{k}" for k in range(count))
    namespace: dict[str, Any] = {"function": function}
    exec(f"def fixed({names}):\n    return function({names})", namespace)
    fixed: Callable[..., Any] = namespace["fixed"]
    return fixed
