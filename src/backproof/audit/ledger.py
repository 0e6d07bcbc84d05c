"""What is known of one Function while a program runs: counts, and a few calls."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from backproof.audit.identity import Identity, place_of
from backproof.records import Location

Signature = tuple[Any, ...]
"""Of each leaf of the arguments: shape, strides, dtype and need of a gradient, or type."""

_MOST_KINDS = 4
_MOST_SIGNATURES = 1000


@dataclass(frozen=True)
class KeptCall:
    """One call as it was made.

    Attributes:
        written: the class that was called.
        arguments: a tree of what is kept of each argument (see `kept`).
        signature: of its inputs.
        number: which call of its Function it was, from 1.
        numel: elements of its tensors together.
        size: bytes that are kept for it.
        autocast: device type and dtype of each autocast that was on.
        default_dtype: torch's at the time.
        device: torch's default device at the time.
        label: what reports call it.
        observed: one record of what it looked like here, where there are several ranks.
    """

    written: type
    arguments: Any
    signature: Signature
    number: int
    numel: int
    size: int
    autocast: tuple[tuple[str, Any], ...]
    default_dtype: Any
    device: Any
    label: str = ""
    observed: list[Any] = field(default_factory=list, compare=False)


@dataclass
class Kind:
    """Calls whose arguments differ in sizes and strides only: which are kept."""

    kept: dict[str, KeptCall] = field(default_factory=dict)
    seen: int = 0


@dataclass
class Ledger:
    """One Function.

    Attributes:
        identity: the place of its source.
        written: a class of it, the first that was met.
        package: the installed package it belongs to; empty for the program's own.
        file: of its module.
        calls: how often it was called; a level of torch.func is no call of its own.
        unrecorded: calls that could not be kept, by reason.
        signatures: those that were met, while there is room.
        checked: those of which a call was verified.
        kinds: the kept calls.
        ungraded: the first call that needed no gradient, as if it had.
    """

    identity: Identity
    written: type
    package: str
    file: str = ""
    calls: int = 0
    unrecorded: Counter[str] = field(default_factory=Counter)
    signatures: set[Signature] = field(default_factory=set)
    checked: set[Signature] = field(default_factory=set)
    kinds: dict[Signature, Kind] = field(default_factory=dict)
    ungraded: KeptCall | None = None
    classes: int = 0

    @functools.cached_property
    def where(self) -> Location | None:
        """Where it is written; asked for when the program has time."""
        return place_of(self.written, self.file)

    @property
    def place(self) -> tuple[str, int | None]:
        """File and line; an empty file where there is no source."""
        return (self.where.file, self.where.line) if self.where else ("", None)

    @property
    def kept(self) -> list[KeptCall]:
        """The kept calls, those to verify first before the others."""
        by_slot: dict[str, list[KeptCall]] = {}
        for kind in self.kinds.values():
            for slot, call in kind.kept.items():
                by_slot.setdefault(slot, []).append(call)
        order = sorted(by_slot, key=lambda slot: (slot != "smallest", slot))
        every = [call for slot in order for call in by_slot[slot]]
        return [call for call in every if call.arguments is not None]

    def meet(self, signature: Signature) -> None:
        """Count a signature."""
        if len(self.signatures) < _MOST_SIGNATURES:
            self.signatures.add(signature)

    def place_for(
        self, signature: Signature, numel: int, most: int, chance: random.Random
    ) -> tuple[Kind, str] | None:
        """Where a call would be kept, None where it would not.

        The first, the smallest, and from then on a random one of those that follow, for
        each kind of arguments; a kind that was verified already counts as full.
        """
        about = _kind_of(signature)
        kind = self.kinds.get(about)
        if kind is None:
            if len(self.kinds) >= _MOST_KINDS:
                return None
            kind = self.kinds[about] = Kind()
        kind.seen += 1
        slots = ("first", "smallest", *(f"later {k}" for k in range(1, most - 1)))[
            :most
        ]
        empty = [slot for slot in slots if slot not in kind.kept]
        known = any(call.signature == signature for call in kind.kept.values())
        if len(empty) == len(slots):
            return kind, "first"
        if "smallest" in slots:
            smallest = kind.kept.get("smallest", kind.kept.get("first"))
            if smallest is not None and numel < smallest.numel:
                return kind, "smallest"
        later = [slot for slot in slots if slot.startswith("later")]
        for slot in later:
            if slot in empty and not known:
                return kind, slot
        if later and chance.random() * kind.seen < len(later):
            return kind, chance.choice(later)
        return None

    def drop_ungraded(self) -> int:
        """Forget the call that needed no gradient; bytes that are freed."""
        freed = self.ungraded.size if self.ungraded is not None else 0
        self.ungraded = None
        return freed

    def let_go(self) -> int:
        """Forget the kept calls, but not that they were verified; bytes that are freed."""
        freed = sum(c.size for kind in self.kinds.values() for c in kind.kept.values())
        for kind in self.kinds.values():
            kind.kept = {
                slot: dataclasses.replace(call, arguments=None, size=0, observed=[])
                for slot, call in kind.kept.items()
            }
        return freed


def _kind_of(signature: Signature) -> Signature:
    """The signature without sizes and strides."""
    return tuple(
        (leaf[2:] if isinstance(leaf, tuple) and len(leaf) > 2 else leaf)
        for leaf in signature
    )
