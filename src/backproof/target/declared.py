"""What a module says of its subjects beside their inputs: EXPECT and NOISE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, cast

from backproof.errors import BadInput
from backproof.inputs.registered import identity


def declared_gradient(
    module: ModuleType, name: str, target: Any, *, alone: bool
) -> Callable[..., Any] | None:
    """What the module's EXPECT says of `target`: a function, or one for each name."""
    declared: Any = getattr(module, "EXPECT", None)
    if isinstance(declared, Mapping):
        return cast("Callable[..., Any] | None", _by_name(declared, name, target))
    op = getattr(module, "op", None)
    if not callable(declared) or (
        callable(op) and name != "op" and identity(op) is not identity(target)
    ):
        return None
    if not alone:
        raise BadInput(
            "EXPECT is one function, and there are several Functions; make it a dict "
            f'from names to functions: EXPECT = {{"{name}": ...}}'
        )
    return cast("Callable[..., Any]", declared)


def declared_noise(module: ModuleType, name: str, target: Any) -> float:
    """What the module's NOISE says of `target`: a number, or one for each name."""
    noise: Any = getattr(module, "NOISE", 0.0)
    if isinstance(noise, Mapping):
        noise = _by_name(noise, name, target) or 0.0
    if isinstance(noise, bool) or not isinstance(noise, (int, float)):
        raise BadInput(
            "NOISE is the relative distance between equal calls, such as 1e-6, or a dict "
            f"from names to such numbers; it is {noise!r}"
        )
    return float(noise)


def _by_name(declared: Mapping[Any, Any], name: str, target: Any) -> Any:
    """The entry for `target`, under its name in the module or its own."""
    return declared.get(name) or declared.get(getattr(target, "__name__", name))
