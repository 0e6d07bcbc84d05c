"""Names in a module: the subjects it defines, and the thing that a name means."""

from __future__ import annotations

import difflib
import inspect
from types import ModuleType
from typing import Any

import torch

from backproof import dispatcher
from backproof.errors import BadInput
from backproof.function_class import Defined, is_function, own_method
from backproof.inputs.raised import near

_LISTED = 8  # names shown where none is near the one that was asked for


def defined_in(module: ModuleType) -> list[tuple[str, Any]]:
    """Functions, custom operators and their like that `module` defines, in their order.

    An operator without a backward of its own is left out: many a file has one that
    computes another's gradient.
    """
    found: list[tuple[str, Any]] = []
    for name, value in vars(module).items():
        own = (
            _is_own_function(value, module)
            or _is_own_operator(value, module)
            or _is_own_callable(value, module)
        )
        if own and all(value is not known for _, known in found):
            found.append((name, value))
    return found


def _is_own_function(value: Any, module: ModuleType) -> bool:
    return (
        is_function(value)
        and value.__module__ == module.__name__
        and own_method(value, "forward") is not None  # else a base of the user's own
    )


def _is_own_callable(value: Any, module: ModuleType) -> bool:
    return isinstance(value, Defined) and value.__module__ == module.__name__


def _is_own_operator(value: Any, module: ModuleType) -> bool:
    if not dispatcher.is_custom(value):  # a name for torch.ops.x.y is no definition
        return False
    overload = dispatcher.overload_of(value)
    made_from = dispatcher.implementation(overload)
    own = getattr(made_from, "__module__", None) == module.__name__
    return own and not dispatcher.lacks_formula(overload)


def found(module: ModuleType, name: str, asked: str) -> Any:
    """The object called `name` in `module`; dots lead into classes and objects.

    Raises:
        BadInput: there is no such name; the message has the nearest ones.
    """
    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            where = near(module.__file__ or module.__name__)
            raise BadInput(_no_such(value, part, asked, where)) from None
    return value


def nothing_to_check(module: ModuleType, text: str) -> str:
    """What to say of a module without a subject, an `op` or registered inputs."""
    reason = f"{text}: no Function, custom operator or `op` is defined in it"
    public = {n: v for n, v in vars(module).items() if not n.startswith("_")}
    bare = [name for name, value in public.items() if dispatcher.is_custom(value)]
    if bare:
        reason += f" but {_listed(bare)}, without an autograd formula: register one "
        reason += "with `register_autograd`"
    others = [
        name
        for name, value in public.items()
        if (inspect.isfunction(value) or isinstance(value, torch.nn.Module))
        and name not in ("inputs", "EXPECT")
        and getattr(value, "__module__", module.__name__) == module.__name__
    ]
    if others:
        reason += f"; to check one of {_listed(others)}, name it: {text}::{others[0]}"
    return reason


def _no_such(owner: Any, part: str, asked: str, where: str) -> str:
    public = [name for name in _names_of(owner) if not name.startswith("_")]
    close = difflib.get_close_matches(part, public, n=3, cutoff=0.5)
    close = [n for n in public if n.lower() == part.lower()] or close
    holder = where if isinstance(owner, ModuleType) else f"`{_shown(owner)}`"
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    if not close and public:
        hint = f"; it has {_listed(public)}"
    return f"{asked}: there is no `{part}` in {holder}{hint}"


def _names_of(owner: Any) -> list[str]:
    """What could be meant: a module's own callables first, else everything it has."""
    if not isinstance(owner, ModuleType):
        return dir(owner)
    own = [
        name
        for name, value in vars(owner).items()
        if callable(value) and getattr(value, "__module__", None) == owner.__name__
    ]
    other = [n for n, v in vars(owner).items() if callable(v) and n not in own]
    return own or other


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _shown(owner: Any) -> str:
    return str(getattr(owner, "__name__", type(owner).__name__))
