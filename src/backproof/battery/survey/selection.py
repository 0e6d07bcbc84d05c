"""Names of contexts, as one writes them on a command line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from backproof.battery.survey.context import GROUPS, Context
from backproof.errors import BadInput

_FAST = ("eager", "func", "vmap")


def select(text: str, contexts: Sequence[Context]) -> list[Context]:
    """The contexts that `text` names, in their own order.

    Items are separated by commas and taken from left to right; a minus leaves out.

        all             every context
        none            none
        fast            those that compile and export nothing
        eager, func, vmap, compile, export    a group
        inductor        those that need a C++ compiler
        func_grad       one of them
        all,-inductor   every context but those of Inductor

    Raises:
        BadInput: a name that is not known.
    """
    chosen: set[str] = set()
    items = [item.strip() for item in text.split(",") if item.strip()]
    if items and items[0].startswith("-"):
        items.insert(0, "all")
    for item in items:
        named = _named(item.removeprefix("-"), contexts)
        chosen = chosen - named if item.startswith("-") else chosen | named
    return [c for c in contexts if c.name in chosen]


def _named(item: str, contexts: Sequence[Context]) -> set[str]:
    if item == "none":
        return set()
    if item == "all":
        return {c.name for c in contexts}
    if item == "fast":
        return {c.name for c in contexts if c.group in _FAST}
    if item == "inductor":
        return {c.name for c in contexts if c.inductor}
    if item in GROUPS:
        return {c.name for c in contexts if c.group == item}
    names = {c.name for c in contexts}
    if item not in names:
        known = [*names, "all", "none", "fast", "inductor", *GROUPS]
        near = difflib.get_close_matches(item, known, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise BadInput(
            f"there is no context {item!r}{hint} Known: all, none, fast, inductor, "
            f"{', '.join(GROUPS)}, {', '.join(sorted(names))}"
        )
    return {item}
