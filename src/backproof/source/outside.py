"""Which calls of a method leave what torch and the reader can see."""

from __future__ import annotations

import ast
import sys
from types import FunctionType, MethodType, ModuleType
from typing import Any

from backproof.source.model import Method
from backproof.source.page import dotted
from backproof.source.place import Place
from backproof.source.plain_function import plain_function
from backproof.source.scope import own_nodes

_INSIDE = {"torch", "backproof", "builtins", *sys.stdlib_module_names}
_OPERATORS = "torch._ops."  # followed by the namespace in the dispatcher
_TORCHS_OWN = {"aten", "prim", "prims"}


def calls_out(method: Method, function: Any) -> tuple[Place, ...]:
    """Calls of code that is not Python and not torch's: extensions, NumPy, ctypes.

    Names are looked up in the globals and the closure of the live `function` that
    `method` was read from; a name that the method itself binds is not followed. The
    text of each place is the name that is called, such as `_kernels.softplus_bwd`.
    """
    plain = plain_function(function)
    if plain is None:
        return ()
    names = _names(plain)
    for local in (*method.parameters, *(one.name for one in method.assignments)):
        names.pop(local.lstrip("*"), None)
    found = []
    for node, _ in own_nodes(method.node):
        name = dotted(node.func) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and name is not None:
            called = _resolved(name, names)
            if callable(called) and _is_outside(called):
                found.append(Place(node.lineno, name))
    return tuple(found)


def _names(function: FunctionType) -> dict[str, Any]:
    names = dict(function.__globals__)
    for name, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True
    ):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not bound yet
            names.pop(name, None)
    return names


def _resolved(name: str, names: dict[str, Any]) -> Any:
    """What a dotted name means, None where it means nothing."""
    first, *rest = name.split(".")
    found = names.get(first)
    for attribute in rest:
        try:
            found = getattr(found, attribute)
        except Exception:  # whatever a lazy module or a property raises
            return None
    return found


def _is_outside(called: Any) -> bool:
    module = _module(called)
    if module.startswith(_OPERATORS):
        namespace = module.removeprefix(_OPERATORS).partition(".")[0]
        return namespace not in _TORCHS_OWN
    if _is_python(called):
        return False
    return _is_foreign_function(called) or module.partition(".")[0] not in _INSIDE


def _is_python(called: Any) -> bool:
    if isinstance(called, MethodType):
        return _is_python(called.__func__)
    if isinstance(called, (type, FunctionType)):
        return True
    # a callable object; Numba's compiled functions keep the one that they are made from
    beneath = (type(called).__call__, getattr(called, "py_func", None))
    return any(isinstance(one, FunctionType) for one in beneath)


def _is_foreign_function(called: Any) -> bool:
    ctypes = sys.modules.get("_ctypes")
    return ctypes is not None and isinstance(called, ctypes.CFuncPtr)


def _module(called: Any) -> str:
    """The module that something callable says it is from; that of its owner else."""
    module = getattr(called, "__module__", None)
    owner = getattr(called, "__self__", None)
    if module is None and isinstance(owner, ModuleType):
        module = owner.__name__
    elif module is None and owner is not None:
        kind = owner if isinstance(owner, type) else type(owner)
        module = kind.__module__
    return module if isinstance(module, str) else type(called).__module__
