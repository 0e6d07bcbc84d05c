"""Do something as soon as a module has been imported, without importing it.

An audit must not be what loads torch: a program may set variables before it does, and
many processes never load it. This file imports nothing that takes time.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def when_imported(name: str, act: Callable[[], None]) -> None:
    """Call `act` once, now if the module is there, else right after it has loaded."""
    if name in sys.modules:
        act()
    else:
        sys.meta_path.insert(0, _Waiting(name, act))


class _Waiting(importlib.abc.MetaPathFinder):
    """Finds one module by the finders that follow, and puts itself around its loader."""

    def __init__(self, name: str, act: Callable[[], None]) -> None:
        self._name, self._act = name, act

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Telling(spec.loader, self._act)  # type: ignore[assignment]
        return spec


class _Telling:
    """A loader that says when it is done; all else is the one that it stands for."""

    def __init__(self, loader: Any, act: Callable[[], None]) -> None:
        self._loader, self._act = loader, act

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        """As the loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the loader does, and then say so."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._act()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
