"""Which Function a class is: by the place of its source, not by the class object.

Some packages make a class at every call. torch.func makes one for each level and each
vmap, with the written class in a closure.
"""

from __future__ import annotations

import ast
import inspect
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from backproof.function_class import own_method
from backproof.records import Location
from backproof.subject import subject_of

_GENERATED = "torch._functorch.autograd_function"
_INSTALLED = {
    Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")
}
_OURS = "backproof."


@dataclass(frozen=True)
class Origin:
    """The class that was written, and what torch has made of it for this call.

    Attributes:
        written: the user's class.
        level: whether this call is a level of torch.func, with the call that counts
            inside of it.
        in_dims: of a call for a whole batch under vmap, the batched dimension of each
            argument; None elsewhere.
    """

    written: type
    level: bool = False
    in_dims: Any = None


@dataclass(frozen=True, order=True)
class Identity:
    """One Function: where its forward is written."""

    module: str
    qualname: str
    line: int

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.qualname.replace("<locals>.", "")


def origin_of(cls: type) -> Origin:
    """What was written behind `cls`, which is `cls` itself in most cases."""
    found = Origin(cls)
    while True:
        forward = _function(found.written.__dict__.get("forward"))
        if getattr(forward, "__module__", "") != _GENERATED:
            return found
        cells = dict(
            zip(forward.__code__.co_freevars, forward.__closure__ or (), strict=True)
        )
        inner = cells.get("autograd_function")
        if inner is None:
            return found
        dims = cells["in_dims"].cell_contents if "in_dims" in cells else found.in_dims
        level = found.level or "in_dims" not in cells
        found = Origin(inner.cell_contents, level, dims)


def identity_of(cls: type) -> Identity:
    """The place in the source that `cls` comes from."""
    forward = _function(own_method(cls, "forward"))
    code = getattr(inspect.unwrap(forward) if forward else None, "__code__", None)
    line = code.co_firstlineno if code is not None else 0
    return Identity(cls.__module__, cls.__qualname__, line)


def file_of(cls: type) -> str:
    """The file of its module; empty where there is none.

    Asked while the program runs: when a script has ended, its module has no file left.
    """
    module = sys.modules.get(cls.__module__)
    return getattr(module, "__file__", None) or ""


def place_of(cls: type, file: str) -> Location | None:
    """Where the class is written, in `file` if Python no longer knows.

    Reads the source, which takes as long as a training step.
    """
    known = subject_of(cls).where
    if known is not None or not Path(file).is_file():
        return known
    tree = ast.parse(Path(file).read_text(encoding="utf-8", errors="replace"))
    lines = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__
    ]
    before = [line for line in lines if line <= identity_of(cls).line]
    return Location(file, max(before, default=min(lines, default=None)))


def is_foreign(cls: type) -> bool:
    """Whether it is torch's own, or part of how backproof works."""
    module = cls.__module__
    if hasattr(cls, "written_as"):  # the inside of one of ours, which is watched itself
        return True
    top = module.partition(".")[0]
    if top == "torch":
        return not cls.__name__.startswith("GeneratedBackwardFor_")
    return module.startswith(_OURS) and not module.startswith(f"{_OURS}ops")


def package_of(cls: type) -> str:
    """The installed package that it belongs to; empty for the program's own code."""
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    if file is None:
        return ""
    path = Path(file).resolve()
    if any(path.is_relative_to(folder) for folder in _INSTALLED):
        return cls.__module__.partition(".")[0]
    return ""


def calls_directly(cls: Any) -> Callable[..., Any]:
    """What to call to make the call again that was seen, past the audit's own hook.

    An `apply` of the class's own may take other arguments than those that torch got.
    """
    if getattr(cls.apply, "__func__", None) is _torchs_apply() or not issubclass(
        cls, torch.autograd.Function
    ):
        return _callable(cls.apply)
    return _callable(super(torch.autograd.Function, cls).apply)


def _callable(found: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = found
    return made


def _torchs_apply() -> Any:
    return torch.autograd.Function.apply.__func__  # type: ignore[attr-defined]


def _function(method: Any) -> Any:
    return getattr(method, "__func__", method)
