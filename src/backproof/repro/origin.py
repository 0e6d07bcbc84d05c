"""Where a subject comes from, and the lines by which a script gets hold of it."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from backproof import tree
from backproof.function_class import is_function
from backproof.repro.errors import NoScript
from backproof.subject import Case
from backproof.target.place import Place
from backproof.trial.random_state import restart

_OPERATORS = "torch.ops."
_IMPORTS_US = re.compile(r"^\s*(import|from)\s+backproof\b", re.MULTILINE)
_MADE_BY = re.compile(r"(\w+)(?:\[(\d+)\])?")  # the label of a case


@dataclass(frozen=True)
class Origin:
    """Where a subject comes from.

    Attributes:
        place: of its module.
        name: a dotted name in that module, or `torch.ops.ns.name`.
        script: the path that the script will have.
        seed: of its inputs, and of random numbers.
        expect: the name of a soft function in the module, None where none was given.
        reference: likewise of plain code with the same meaning.
    """

    place: Place
    name: str
    script: Path
    seed: int = 0
    expect: str | None = None
    reference: str | None = None

    @functools.cached_property
    def module(self) -> ModuleType:
        """The module, which is loaded already.

        Raises:
            NoScript: it is not among the loaded ones.
        """
        if self.place.file is None:
            known = sys.modules.get(self.place.module or "")
        else:
            path = Path(self.place.file).resolve()
            known = next((m for m in _with_a_file() if _file(m) == path), None)
        if known is None:
            raise NoScript("its module cannot be found again")
        return known

    @functools.cached_property
    def target(self) -> Any:
        """What the name means.

        Raises:
            NoScript: it is no name in the module.
        """
        start: Any = torch if self._is_operator else self.module
        name = self.name.removeprefix("torch.") if self._is_operator else self.name
        try:
            return functools.reduce(getattr, name.split("."), start)
        except AttributeError as error:
            raise NoScript(f"`{self.name}` is no name in its module") from error

    @property
    def function(self) -> str:
        """The expression that is called with the arguments."""
        found = self.target
        text = self.name if self._is_operator else f"module.{self.name}"
        if is_function(found):
            return f"{text}.apply"
        if isinstance(found, type) and issubclass(found, torch.nn.Module):
            return f"{text}()"
        return text

    @property
    def needs_backproof(self) -> bool:
        """Whether the user's own file imports backproof."""
        file = _file(self.module)
        if file is None or file.suffix != ".py":
            return False
        return bool(_IMPORTS_US.search(file.read_text(encoding="utf-8")))

    @property
    def file(self) -> str:
        """The module's file as seen from the script, or its import name."""
        file = _file(self.module)
        if file is None or self.place.module is not None:
            return self.place.module or self.module.__name__
        return self.seen_from_script(file)

    def seen_from_script(self, path: Path) -> str:
        """`path` relative to the script's folder, where they are on one tree."""
        folder = self.script.resolve().parent
        try:
            together = os.path.commonpath([folder, path])
        except ValueError:  # two drives
            return path.as_posix()
        if len(Path(together).parts) < 2:
            return path.as_posix()
        return Path(os.path.relpath(path, folder)).as_posix()

    def loading(self) -> list[str]:
        """Lines that end with the name `module` bound to it."""
        seed = f"torch.manual_seed({self.seed})"
        if self.place.file is None:
            return [*self._root_of_name(), seed, self._by_name(self.place.module or "")]
        path = Path(self.place.file).resolve()
        here = "Path(__file__).resolve().parent"
        if (path.parent / "__init__.py").is_file():
            name = self.module.__name__
            root = path.parents[name.count(".")]
            where = f"str({here} / {_quoted(self.seen_from_script(root))})"
            return [f"sys.path.insert(0, {where})", seed, self._by_name(name)]
        return [
            f"path = {here} / {_quoted(self.seen_from_script(path))}",
            "sys.path.insert(0, str(path.parent))",
            'spec = importlib.util.spec_from_file_location("under_test", path)',
            'module = sys.modules["under_test"] = importlib.util.module_from_spec(spec)',
            seed,
            "spec.loader.exec_module(module)",
        ]

    def made_by_seed(self, case: Case) -> str | None:
        """The expression that makes the very arguments of `case` as a list, if any.

        The user's own function is called again, from another random state, and has to
        give the same.
        """
        match = _MADE_BY.fullmatch(case.label)
        maker = getattr(self.module, match[1], None) if match else None
        if match is None or not callable(maker) or case.keywords:
            return None
        try:
            if "seed" not in inspect.signature(maker).parameters:
                return None
            restart(self.seed + 1)
            made = maker(seed=self.seed)
        except Exception:  # with `size` it may take more than a seed
            return None
        text = f"module.{match[1]}(seed={self.seed})"
        if match[2] is not None:
            made, text = list(made)[int(match[2])], f"list({text})[{match[2]}]"
        text = f"[{text}]" if isinstance(made, torch.Tensor) else f"list({text})"
        if isinstance(made, torch.Tensor):
            made = (made,)
        return text if isinstance(made, tuple) and _same(made, case.arguments) else None

    def expression(self, value: Any, name: str | None) -> str:
        """How the script names `value`, given beside the subject as `name`.

        Raises:
            NoScript: it has no name in the module.
        """
        if name is not None:
            return f"module.{name}"
        declared = getattr(self.module, "EXPECT", None)
        if declared is value:
            return "module.EXPECT"
        if isinstance(declared, Mapping):
            for key, one in declared.items():
                if one is value:
                    return f"module.EXPECT[{key!r}]"
        raise NoScript("what is declared has no name in the module")

    @property
    def _is_operator(self) -> bool:
        return self.name.startswith(_OPERATORS)

    def _root_of_name(self) -> list[str]:
        """Where an import name is found, if that is not where packages are installed."""
        file, here = _file(self.module), Path.cwd().resolve()
        if file is None or not file.is_relative_to(here):
            return []
        root = self.seen_from_script(here)
        where = f"str(Path(__file__).resolve().parent / {_quoted(root)})"
        return [f"sys.path.insert(0, {where})"]

    def _by_name(self, name: str) -> str:
        return f"module = importlib.import_module({_quoted(name)})"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # in double quotes


def _with_a_file() -> Iterator[ModuleType]:
    yield from (m for m in list(sys.modules.values()) if isinstance(m, ModuleType))


def _file(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if isinstance(file, str) else None


def _same(made: tuple[Any, ...], given: tuple[Any, ...]) -> bool:
    """Whether two tuples of arguments hold the same tensors; other objects by type."""
    mine, theirs = (list(tree.leaves(value, "")) for value in (made, given))
    return len(mine) == len(theirs) and all(
        name == label and _alike(a, b)
        for (name, a), (label, b) in zip(mine, theirs, strict=True)
    )


def _alike(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b)
    if a.dtype != b.dtype or a.shape != b.shape or a.requires_grad != b.requires_grad:
        return False
    if a.layout is not torch.strided or a.stride() != b.stride():
        return False
    return bool(((a == b) | ((a != a) & (b != b))).all())
