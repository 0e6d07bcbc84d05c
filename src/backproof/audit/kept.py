"""The arguments of a call, kept for later in few bytes and without tensors.

What is kept of a tensor is a copy of the memory it shows, not a tensor: a program that
counts its live tensors finds as many as without us. Views of one memory share a copy.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backproof import tree
from backproof.trial.copies import untouched

_PLAIN = (Tensor, torch.nn.Parameter)
_WASTE = 2.0  # times as much memory as is shown may be copied with it


class KeptTensor:
    """A tensor: its memory, how it lay in it, and whether it needed a gradient.

    Attributes:
        needs: whether it required a gradient.
        original: the tensor itself while somebody else holds it.
    """

    # No dataclass: for a tree of arguments those are branches.
    __slots__ = (
        *("_dtype", "_memory", "_offset", "_shape", "_strides", "_views"),
        *("needs", "original"),
    )

    def __init__(
        self, tensor: Tensor, memory: torch.UntypedStorage, first: int, *, needs: bool
    ) -> None:
        self._memory, self._offset = memory, tensor.storage_offset() - first
        self._dtype = tensor.dtype
        self._shape, self._strides = tuple(tensor.shape), tensor.stride()
        self._views = tensor.is_conj(), tensor.is_neg()
        self.needs, self.original = needs, weakref.ref(tensor)

    def tensor(self) -> Tensor:
        """A tensor of the same values in the same layout."""
        made = torch.empty(0, dtype=self._dtype, device=self._memory.device)
        made.set_(self._memory, self._offset, self._shape, self._strides)
        conjugate, negative = self._views
        if conjugate:
            made = made.conj()
        if negative:
            made = made._neg_view()
        return made.requires_grad_(self.needs)


class KeptObject:
    """A tensor of a kind that memory and strides do not describe: a copy of itself."""

    __slots__ = ("_copy", "needs", "original")

    def __init__(self, tensor: Tensor, *, needs: bool) -> None:
        self._copy = tensor.detach().clone()
        self.needs, self.original = needs, weakref.ref(tensor)

    def tensor(self) -> Tensor:
        """The copy."""
        return self._copy.requires_grad_(self.needs)


def keep(arguments: Any, needs: Iterator[bool]) -> tuple[Any, int]:
    """A tree like `arguments` with what is kept of each leaf, and its bytes.

    `needs` says of each tensor, in order, whether it needs a gradient.
    """
    leaves = [leaf for _, leaf in tree.leaves(arguments, "")]
    copies: dict[Any, torch.UntypedStorage] = {}
    size = 0
    kept: list[Any] = []
    with torch.no_grad(), torch.inference_mode(mode=False):
        regions = _regions(leaves)
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                kept.append(untouched(leaf))
                size += _num_bytes(leaf)
                continue
            if id(leaf) not in regions:
                kept.append(KeptObject(leaf, needs=next(needs)))
                size += _num_bytes(leaf)
                continue
            region = regions[id(leaf)]
            if region not in copies:
                copies[region] = _copied(leaf, region)
                size += copies[region].nbytes()
            kept.append(
                KeptTensor(leaf, copies[region], region.first, needs=next(needs))
            )
    return tree.rebuild(arguments, iter(kept)), size


def bytes_of(arguments: Any) -> int:
    """What `keep` would copy, at most."""
    return sum(_num_bytes(leaf) for _, leaf in tree.leaves(arguments, ""))


def _num_bytes(leaf: Any) -> int:
    if not isinstance(leaf, Tensor):
        return int(getattr(leaf, "nbytes", 0) or 0)
    return (_extent(leaf) if _is_plain(leaf) else leaf.numel()) * leaf.element_size()


def _is_plain(tensor: Tensor) -> bool:
    return (
        type(tensor) in _PLAIN
        and tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_nested
        and not tensor.is_meta
    )


@dataclass(frozen=True)
class _Region:
    """Elements `first` to `last` (exclusive) of one memory, which are copied together."""

    memory: int
    dtype: torch.dtype
    first: int
    last: int


def _regions(leaves: list[Any]) -> dict[int, _Region]:
    """The region of each plain tensor, by its id.

    Views of one memory share a region, unless most of it would be what none shows.
    """
    by_memory: dict[Any, list[Tensor]] = {}
    for leaf in leaves:
        if isinstance(leaf, Tensor) and _is_plain(leaf):
            place = leaf.untyped_storage()._cdata, leaf.dtype
            by_memory.setdefault(place, []).append(leaf)
    found: dict[int, _Region] = {}
    for (memory, dtype), tensors in by_memory.items():
        ends = {id(tensor): _ends(tensor) for tensor in tensors}
        first = min(start for start, _ in ends.values())
        last = max(end for _, end in ends.values())
        shown = sum(end - start for start, end in ends.values())
        apart = last - first > _WASTE * shown
        for key, (start, end) in ends.items():
            whole = (start, end) if apart else (first, last)
            found[key] = _Region(memory, dtype, *whole)
    return found


def _ends(tensor: Tensor) -> tuple[int, int]:
    start = int(tensor.storage_offset())
    return start, start + _extent(tensor)


def _extent(tensor: Tensor) -> int:
    """Elements of memory from the first to the last that it shows."""
    if tensor.numel() == 0:
        return 0
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum((n - 1) * s for n, s in pairs)


def _copied(tensor: Tensor, region: _Region) -> torch.UntypedStorage:
    flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    flat.set_(
        tensor.untyped_storage(), region.first, (region.last - region.first,), (1,)
    )
    return flat.clone().untyped_storage()
