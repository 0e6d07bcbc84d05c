"""Do something as soon as a module has been imported, without importing it.

An audit must not be what loads torch: a program may set variables before it does, and
many processes never load it. This file imports nothing that takes time.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


def when_imported(name: str, act: Callable[[], None]) -> None:
    """Call `act` once, now if the module is there, else right after it has loaded."""
    if name in sys.modules:
        act()
    else:
        sys.meta_path.insert(0, _Waiting(name, act))


class _Waiting(importlib.abc.MetaPathFinder):
    """Finds one module by the finders that follow, and puts itself around its loader.

    It stays until the module has loaded: to find is not to load, and many a program asks
    whether torch is installed before it imports it.
    """

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
        rest = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (f.find_spec(fullname, path, target) for f in rest)
        spec = next((one for one in found if one is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Telling(spec.loader, self)  # type: ignore[assignment]
        return spec

    def arrived(self) -> None:
        """The module has loaded."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._act()


class _Telling:
    """A loader that says when it is done; all else is the one that it stands for."""

    def __init__(self, loader: Any, waiting: _Waiting) -> None:
        self._loader, self._waiting = loader, waiting

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        """As the loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the loader does, and then say so."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._waiting.arrived()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
