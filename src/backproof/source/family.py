"""Which classes of a text derive from `autograd.Function`."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from backproof.source.page import Definition, Page, dotted

_AUTOGRAD = ("torch.autograd", "torch.autograd.function")
_BASES = ("Function", "InplaceFunction", "NestedIOFunction", "_SingleLevelFunction")


def function_classes(text: Page) -> Iterator[tuple[str, ast.ClassDef]]:
    """Qualified name and node of each, in the order of the text.

    Bases are followed through imports, through names that the module gives to imported
    classes, and through classes of the same text. A base from another file that is not
    torch's or ours is unknown.
    """
    family = _Family(text)
    for definition in text.definitions:
        if isinstance(definition.node, ast.ClassDef) and family.has(definition):
            yield definition.qualname, definition.node


class _Family:
    """Who descends from whom in one text."""

    def __init__(self, text: Page) -> None:
        self._known = {**text.imported, **_renamed(text)}
        self._stars = {
            full.removesuffix(".*")
            for full in text.imported.values()
            if full.endswith(".*")
        }
        self._classes: dict[str, list[Definition]] = defaultdict(list)
        for definition in text.definitions:
            if isinstance(definition.node, ast.ClassDef):
                self._classes[definition.qualname].append(definition)

    def has(self, one: Definition, above: tuple[Definition, ...] = ()) -> bool:
        """Whether the class descends from Function; `above` are its descendants."""
        assert isinstance(one.node, ast.ClassDef)
        for base in one.node.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base  # Base[T]
            name = dotted(plain)
            if name is None:
                continue
            if self._is_function(name):
                return True
            seen = (*above, one)
            parents = (p for p in self._here(name, one.qualname) if p not in seen)
            if any(self.has(parent, seen) for parent in parents):
                return True
        return False

    def _is_function(self, name: str) -> bool:
        first, _, rest = name.partition(".")
        full = self._known.get(first, first) + (f".{rest}" if rest else "")
        module, _, last = full.rpartition(".")
        if not module and last in _BASES:
            return not self._stars.isdisjoint(_AUTOGRAD)
        if module in _AUTOGRAD:
            return last in _BASES
        return last == "Function" and module.partition(".")[0] == "backproof"

    def _here(self, name: str, child: str) -> Iterator[Definition]:
        """Classes that `name` may mean in the scopes around `child`."""
        scope = child
        while scope:
            scope = scope.rpartition(".")[0]
            yield from self._classes.get(f"{scope}.{name}" if scope else name, ())


def _renamed(text: Page) -> dict[str, str]:
    """`Function = torch.autograd.Function` in the body of the module."""
    found = {}
    for node in text.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            first, _, rest = (dotted(node.value) or "").partition(".")
            if first in text.imported:
                full = text.imported[first] + (f".{rest}" if rest else "")
                found[node.targets[0].id] = full
    return found
