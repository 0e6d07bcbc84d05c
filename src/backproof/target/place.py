"""Target strings -> places: which file or module, and which name in it.

    file.py              everything in it that has inputs
    file.py::Name        one Function, callable or module, also `Outer.Inner`
    package.module:Name  the same, by import name
    torch.ops.ns.name    an operator, also `module:torch.ops.ns.name` of a module that
                         registers it
    folder/              its *.py, not those of its subfolders

Nothing is imported here, and torch is not needed.
"""

from __future__ import annotations

import ast
import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from backproof.errors import BadInput
from backproof.report import Unchecked

_OPERATORS = "torch.ops."


@dataclass(frozen=True)
class Place:
    """Where to look.

    Attributes:
        text: the target as the user would write it.
        file: the path of a Python file, None for an import name.
        module: an import name, None for a file.
        name: a dotted name in it, None for everything that has inputs.
        in_folder: whether it was found in a folder rather than asked for by name, so
            that having nothing to check is no failure.
    """

    text: str
    file: str | None = None
    module: str | None = None
    name: str | None = None
    in_folder: bool = False


def places(
    text: str, *, gives: str | None = None
) -> tuple[list[Place], list[Unchecked]]:
    """The places that one target string means, and what a folder holds besides.

    Args:
        text: the target.
        gives: a name that a file in a folder has to define to be worth importing,
            beside the usual ways to give inputs.

    Raises:
        BadInput: there is no such file, folder or module.
    """
    path_text, name = _split(text)
    path = Path(path_text)
    if text.startswith(_OPERATORS):
        return [Place(text, module="torch", name=text.removeprefix("torch."))], []
    if path.is_dir():
        if name:
            raise BadInput(f"{text}: a folder has no names in it; give a file::{name}")
        return _in_folder(path, gives)
    if path.is_file():
        if path.suffix != ".py":
            raise BadInput(f"{path_text} is not a Python file: its name ends in no .py")
        return [Place(text, file=path_text, name=name)], []
    if _could_be_module(path_text):
        return [Place(text, module=path_text, name=name)], []
    raise BadInput(_no_such(path_text))


def _split(text: str) -> tuple[str, str | None]:
    """The file or module, and the name behind the colons."""
    if "::" in text:
        path, _, name = text.partition("::")
        return path, name or None
    path, colon, name = text.rpartition(":")
    if colon and name.replace(".", "").isidentifier():
        return path, name
    return text, None


def _could_be_module(text: str) -> bool:
    parts = text.split(".")
    return all(part.isidentifier() for part in parts) and parts[-1] != "py"


def _in_folder(folder: Path, gives: str | None) -> tuple[list[Place], list[Unchecked]]:
    files = sorted(path for path in folder.glob("*.py") if path.is_file())
    below = sorted({path.parent for path in folder.glob("[!._]*/*.py")})
    if not files:
        hint = f"; give a sub-folder, such as {below[0]}" if below else ""
        raise BadInput(f"{folder}: there is no *.py in this folder{hint}")
    found, skipped = [], []
    for path in files:
        if _may_give_inputs(path, gives):
            found.append(Place(str(path), file=str(path), in_folder=True))
        else:
            reason = "it gives no inputs, so it was not imported"
            skipped.append(Unchecked(str(path), reason))
    for inner in below:
        reason = "a sub-folder, which is not descended into"
        skipped.append(Unchecked(f"{inner}{os.sep}", reason))
    return found, skipped


def _may_give_inputs(path: Path, gives: str | None) -> bool:
    """Whether importing `path` is worth it.

    Read from its source, since a folder may hold training scripts, and importing one
    runs it. A file that does not parse is imported, so that its error is seen.
    """
    try:
        syntax = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return True
    wanted = {"inputs", "inputs_for", "*"} | ({gives} if gives else set())
    return any(name in wanted for name in _names(syntax))


def _names(syntax: ast.Module) -> Iterator[str]:
    """Every name that is defined, imported or called anywhere in a file."""
    for node in ast.walk(syntax):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.asname or node.name


def _no_such(text: str) -> str:
    path = Path(text)
    kind = "file" if path.suffix == ".py" else "file, folder or module"
    if not path.parent.is_dir():
        return f"there is no {kind} {text}: there is no folder {path.parent}"
    beside = [p.name for p in path.parent.glob("*.py")]
    near = difflib.get_close_matches(path.name, beside, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(str(path.with_name(n)) for n in near)}?"
    return f"there is no {kind} {text}{hint if near else ''}"
