"""Operators of torch's dispatcher: what can be known of one without running it.

An operator comes as the object that `torch.library.custom_op` makes, or as
`torch.ops.namespace.name` with or without an overload. Each is led back to its one
overload, which has a schema. Private names of torch are used here only; where one is
missing, less is known and nothing breaks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from backproof.errors import BadInput

try:
    from torch._library.custom_ops import OPDEFS, CustomOpDef
except ImportError:  # another version of torch: names of operators still work
    OPDEFS, CustomOpDef = {}, ()  # type: ignore[assignment,misc]


def is_operator(target: Any) -> bool:
    """Whether `target` is an operator rather than a function that may call some."""
    by_name = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
    return isinstance(target, by_name) or is_custom(target)


def is_custom(target: Any) -> bool:
    """Whether `target` is what `torch.library.custom_op` makes."""
    return isinstance(target, CustomOpDef)


def overload_of(operator: Any) -> torch._ops.OpOverload:
    """The one overload that `operator` means.

    Raises:
        BadInput: it has several, and none of them was named.
    """
    if isinstance(operator, CustomOpDef):
        operator = operator._opoverload
    if isinstance(operator, torch._ops.OpOverload):
        return operator
    names: list[str] = operator.overloads()
    if len(names) != 1:
        raise BadInput(
            f"torch.ops.{operator} has {len(names)} overloads; name one of them, such "
            f"as torch.ops.{operator}.{names[0]}: {', '.join(names)}"
        )
    overload: torch._ops.OpOverload = getattr(operator, names[0])
    return overload


def qualified_name(overload: torch._ops.OpOverload) -> str:
    """Its name as schemas have it: `mylib::norm`, `aten::mul.Tensor`."""
    schema = overload._schema
    return f"{schema.name}.{schema.overload_name}".rstrip(".")


def parameter_names(overload: torch._ops.OpOverload) -> list[str]:
    """Names of its positional parameters."""
    return [a.name for a in overload._schema.arguments if not a.kwarg_only]


def signature(overload: torch._ops.OpOverload) -> inspect.Signature:
    """Its schema as Python has it; annotations are the schema's words for types."""
    kind = inspect.Parameter
    return inspect.Signature(
        [
            kind(
                argument.name,
                kind.KEYWORD_ONLY
                if argument.kwarg_only
                else kind.POSITIONAL_OR_KEYWORD,
                annotation=str(argument.type),
                default=argument.default_value
                if argument.has_default_value()
                else kind.empty,
            )
            for argument in overload._schema.arguments
        ],
        __validate_parameters__=False,  # schemas have required ones behind defaults
    )


def implementation(overload: torch._ops.OpOverload) -> Callable[..., Any] | None:
    """The Python function that it was made from, where there is one."""
    made = _definition(overload)
    return getattr(made, "_init_fn", None)


def backward(overload: torch._ops.OpOverload) -> Callable[..., Any] | None:
    """The Python function that was registered as its backward, where there is one."""
    made = _definition(overload)
    return getattr(made, "_backward_fn", None)


def lacks_formula(overload: torch._ops.OpOverload) -> bool:
    """Whether nobody has registered a backward for it, as far as can be known."""
    made = _definition(overload)
    return made is not None and getattr(made, "_backward_fn", made) is None


def promises_new_memory(overload: torch._ops.OpOverload) -> bool:
    """Whether its schema says that no result shares memory with an argument.

    Whatever rewrites a graph relies on it. An operator that is taken apart into others
    before that may say what it likes.
    """
    if any(result.alias_info is not None for result in overload._schema.returns):
        return False
    taken_apart = "CompositeImplicitAutograd"
    name = qualified_name(overload)
    return not torch._C._dispatch_has_kernel_for_dispatch_key(name, taken_apart)


def _definition(overload: torch._ops.OpOverload) -> Any:
    """The object of `torch.library.custom_op` behind an overload, None without one."""
    if overload._overloadname != "default":
        return None
    return OPDEFS.get(overload._schema.name)
