"""What was written, beneath decorators, bindings and partial applications."""

from __future__ import annotations

import functools
from types import FunctionType, MethodType
from typing import Any

_DEEPEST = 100  # wrappers around wrappers; one that wraps itself ends here


def plain_function(target: Any) -> FunctionType | None:
    """The Python function that `target` calls; None where there is none to be seen.

    Looked through are `staticmethod`, `classmethod`, bound methods, `functools.partial`
    and decorators that say what they wrap, such as `once_differentiable`.
    """
    for _ in range(_DEEPEST):
        beneath = _beneath(target)
        if beneath is None:
            return target if isinstance(target, FunctionType) else None
        target = beneath
    return None


def _beneath(target: Any) -> Any:
    if isinstance(target, (staticmethod, classmethod, MethodType)):
        return target.__func__
    if isinstance(target, functools.partial):
        return target.func
    return getattr(target, "__wrapped__", None)
