"""The corpora with another base class: their text rewritten, and what each file holds.

Only the names of base classes change, and one import is added in a line that is there
already, so that every line keeps its number.
"""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from running import seed_everything
from torch.testing._internal import autograd_function_db

from backproof.errors import MalformedFunction
from backproof.source.page import dotted, page

_TORCHS = ("torch.autograd.Function", "torch.autograd.function.Function")
_REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Corpus:
    """Files of one kind: where they are, and as which modules they are imported."""

    folder: Path
    package: str
    files: str = "*.py"

    def modules(self) -> list[str]:
        """Names under which its files are imported, without its helpers."""
        skipped = ("__init__", "member", "fault", "draws", "proof")
        stems = [f.stem for f in sorted(self.folder.glob(self.files))]
        prefix = f"{self.package}." if self.package else ""
        return [
            f"{prefix}{stem}"
            for stem in stems
            if stem not in skipped and not stem.startswith("test_")
        ]


def corpora(cases: Path) -> list[Corpus]:
    """All of them; `cases` is the folder of those that are not in the repository."""
    here = _REPOSITORY / "benchmarks"
    return [
        Corpus(cases, "small_cases", "[0-9]*.py"),
        Corpus(here / "unseen", "unseen", "[a-z][0-9]*.py"),
        Corpus(here / "planted", "planted"),
        Corpus(here / "known_causes", "known_causes"),
        Corpus(here / "known_causes" / "blind", "known_causes.blind"),
        Corpus(here / "known_causes" / "seen", "known_causes.seen"),
        Corpus(_REPOSITORY / "tests" / "zoo", "tests.zoo"),
        Corpus(
            Path(autograd_function_db.__file__).parent, "", "autograd_function_db.py"
        ),
    ]


def copied(every: Collection[Corpus], root: Path) -> Path:
    """Copy all of them below `root`, as packages."""
    for corpus in every:
        folder = root / corpus.package.replace(".", "/")
        folder.mkdir(parents=True, exist_ok=True)
        wanted = "*.py" if corpus.package else corpus.files
        for file in corpus.folder.glob(wanted):
            shutil.copy(file, folder)
    return root


def swap_all(root: Path, keep: Collection[str] = ()) -> None:
    """Rewrite every file below `root`, but for the classes of these names."""
    for file in root.rglob("*.py"):
        text = file.read_text()
        new = swapped(text, keep)
        if new != text:
            file.write_text(new)


def swapped(text: str, keep: Collection[str] = ()) -> str:
    """The text with `backproof.Function` where a class derives from torch's."""
    read = page(text, "")
    lines = text.encode().splitlines(keepends=True)
    bases = [
        base
        for node in ast.walk(read.tree)
        if isinstance(node, ast.ClassDef) and node.name not in keep
        for base in node.bases
        if _full_name(base, read.imported) in _TORCHS
    ]
    for base in sorted(bases, key=lambda b: (b.lineno, b.col_offset), reverse=True):
        line = lines[base.lineno - 1]
        before, after = line[: base.col_offset], line[base.end_col_offset :]
        lines[base.lineno - 1] = before + b"backproof.Function" + after
    if bases:
        first = next(node for node in read.tree.body if _is_plain_import(node))
        line = lines[first.lineno - 1]
        lines[first.lineno - 1] = b"import backproof; " + line
    return b"".join(lines).decode()


def _full_name(base: ast.expr, imported: Any) -> str:
    first, _, rest = (dotted(base) or "").partition(".")
    return imported.get(first, first) + (f".{rest}" if rest else "")


def _is_plain_import(node: ast.stmt) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module != "__future__"
    return isinstance(node, ast.Import)


# ---------------------------------------------------------------------------- members


@dataclass(frozen=True)
class Member:
    """A subject of a corpus, what makes its arguments, and options of the check."""

    name: str
    target: Callable[[], Any]
    inputs: Callable[[], tuple[Any, ...]]
    options: dict[str, Any] = field(default_factory=dict)


def loaded(name: str, root: Path) -> tuple[ModuleType, list[str]]:
    """The module, and the refusals on the way.

    A class that is refused stays with torch's base, so that its neighbours are seen.
    """
    sys.path.insert(0, str(root))
    refusals: list[str] = []
    kept: list[str] = []
    while True:
        try:
            return importlib.import_module(name), refusals
        except MalformedFunction as refusal:
            refusals.append(" ".join(str(refusal).split()))
            kept.append(re.split(r"\W", str(refusal))[0])
            if refusal.file is None or kept.count(kept[-1]) > 1:
                raise
            _give_back(Path(refusal.file), kept[-1])
            importlib.invalidate_caches()
            for module in [m for m in sys.modules if m == name]:
                del sys.modules[module]


def _give_back(file: Path, name: str) -> None:
    """Let the class called `name` derive from torch's base again."""
    text = file.read_text()
    pattern = rf"(class {name}\(.*?)backproof\.Function"
    file.write_text(re.sub(pattern, r"\1torch.autograd.Function", text))


def members_in(module: ModuleType) -> Iterator[Member]:
    """What a file of any corpus puts forward."""
    if hasattr(module, "autograd_function_db"):
        yield from _from_database(module)
    elif hasattr(module, "op"):
        expected = getattr(module, "EXPECT", None)
        options = {} if expected is None else {"expect_backward": expected}
        yield Member("op", lambda: module.op, lambda: tuple(module.inputs(0)), options)
    elif module.__name__.startswith("tests.zoo."):
        yield from _from_zoo(module)
    for one in [*getattr(module, "FAULTS", ()), *getattr(module, "TWINS", ())]:
        if hasattr(one, "causes"):
            yield _from_cause(one)
        else:
            yield Member(one.name, one.subject, one.inputs, dict(one.options))


def _from_cause(fault: Any) -> Member:
    dtype = fault.dtypes[0]
    return Member(
        fault.name, lambda: fault.function.apply, lambda: fault.inputs(0, dtype)
    )


def _from_zoo(module: ModuleType) -> Iterator[Member]:
    member = importlib.import_module("tests.zoo.member")
    for one in [*member.GUILTY, *member.INNOCENT]:
        if one.target.__module__ == module.__name__:
            dtype = one.dtypes[0]
            yield Member(
                one.name,
                lambda one=one, dtype=dtype: one.in_type(dtype)[0],
                lambda one=one, dtype=dtype: tuple(one.in_type(dtype)[1:]),
                dict(one.options),
            )


def _from_database(module: ModuleType) -> Iterator[Member]:
    """The first sample of each entry; keywords are bound to the call."""
    for info in module.autograd_function_db:

        def sample(info: Any = info) -> Any:
            seed_everything(0)
            return next(
                iter(info.sample_inputs("cpu", torch.float64, requires_grad=True))
            )

        def target(info: Any = info, sample: Any = sample) -> Any:
            keywords = sample().kwargs
            op = info.op
            return (lambda *args: op(*args, **keywords)) if keywords else op

        def inputs(sample: Any = sample) -> tuple[Any, ...]:
            found = sample()
            return (found.input, *found.args)

        yield Member(info.name, target, inputs)
