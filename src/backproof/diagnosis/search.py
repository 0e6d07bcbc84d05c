"""Which elements are wrong: group testing with lines that move a part of the input.

Two forwards tell the error of any set of elements. A single wrong element is found by
halving, at 2 forwards a halving; where both halves are wrong, the first and the last
wrong element are found by galloping from the ends, and what lies between is guessed
from them and from the values there, and tested by moving everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.diagnosis.cells import Cells, cells_of, errors
from backproof.diagnosis.region import (
    Region,
    Span,
    consistent,
    element,
    everywhere,
    name_of,
    span_of,
)
from backproof.diagnosis.suspect import Line, Spent, Suspect
from backproof.diagnosis.witness import Witness

_GALLOP = 8
_MOST_CANDIDATES = 12  # regions that are tested one by one
_MOST_VAGUE = 0.5  # of the elements: a region that only has ends is then no place
_CLEAR = 0.2  # of an element's size: a bar below it says that the element is right
_STEPS = (2, 3, 4)  # of strided regions that are tried


@dataclass(frozen=True)
class Place:
    """Where the gradient is wrong.

    Attributes:
        region: the elements, None where they were not found.
        witness: of those elements one by one, where forward works element by element.
        sure: whether everything else was seen to be right.
    """

    region: Region | None
    witness: Witness | None = None
    sure: bool = True


def locate(suspect: Suspect) -> Place:
    """The wrong elements of the suspect's gradient, as far as the budget goes."""
    try:
        cells = cells_of(suspect)
        everything = torch.ones_like(suspect.mask)
        line = suspect.line(everything)
        if cells.single:
            return _one_by_one(suspect, cells, line)
        return _Search(suspect, cells, line).place()
    except Spent:
        return Place(None, sure=False)


def _one_by_one(suspect: Suspect, cells: Cells, line: Line) -> Place:
    """Each element hangs on outputs of its own, so one line knows them all."""
    if suspect.is_complex:
        return _by_pairs(suspect, cells, line)
    witness = suspect.as_points(line, cells.of_output)
    known = line.steps != 0
    wrong, right = torch.zeros_like(known), known.clone()
    for k, claim in enumerate(suspect.claims):
        gap, bar = errors(suspect, line, cells, k)  # of each element: it is a cell
        said = claim * line.steps
        size = torch.maximum(said.abs(), (gap + said).abs())
        off = gap.abs() > bar
        wrong |= off
        right &= ~off & (bar < _CLEAR * size)
    if not bool(wrong.any()):
        return Place(None, witness, sure=False)
    care = suspect.elements(wrong | right)  # where both are zero nothing is seen
    return Place(name_of(suspect.elements(wrong), suspect.field, care), witness)


def _by_pairs(suspect: Suspect, cells: Cells, line: Line) -> Place:
    gap, bar = errors(suspect, line, cells)
    wrong = (gap.abs() > bar)[cells.of_element]
    if not bool(wrong.any()):
        return Place(None, sure=False)
    return Place(name_of(suspect.elements(wrong), suspect.field))


class _Search:
    """The wrong part of each cell, all cells at once."""

    def __init__(self, suspect: Suspect, cells: Cells, line: Line) -> None:
        self.suspect, self.cells = suspect, cells
        found = [
            errors(suspect, line, cells, k) for k in range(len(suspect.cotangents))
        ]
        clear = [float((gap.abs() / bar.clamp(min=1e-300)).max()) for gap, bar in found]
        self.which = max(range(len(found)), key=clear.__getitem__)
        self.total, self.bar = found[self.which]
        self.wrong_cells = self.total.abs() > self.bar
        self.size = int(cells.inner.max()) + 1

    def place(self) -> Place:
        if not bool(self.wrong_cells.any()):
            return Place(None, sure=False)
        if self.size == 1:
            mask = self.wrong_cells[self.cells.of_element]
            return Place(name_of(self.suspect.elements(mask), self.suspect.field))
        low, high, alone = self._narrow()
        if alone:
            return self._at_one(low)
        first = self._first(low, high)
        last = self._last(max(first, low), high)
        return self._between(first, last)

    # ------------------------------------------------------------------ experiments

    def _inside(self, low: int, high: int) -> Tensor:
        """Elements with inner numbers in [low, high), of the wrong cells."""
        inner = self.cells.inner
        mask = (inner >= low) & (inner < high)
        return mask & self.wrong_cells[self.cells.of_element]

    def _error(self, mask: Tensor) -> tuple[Tensor, Tensor]:
        line = self.suspect.line(mask)
        return errors(self.suspect, line, self.cells, self.which)

    def _is_clean(self, mask: Tensor) -> bool:
        if not bool(mask.any()):
            return True
        gap, bar = self._error(mask)
        return not bool((gap.abs() > bar).any())

    def _narrow(self) -> tuple[int, int, bool]:
        """[low, high) with all that is wrong, by halving as long as one half is right."""
        low, high = 0, self.size
        while high - low > 1:
            middle = (low + high) // 2
            gap, bar = self._error(self._inside(low, middle))
            dirty = gap.abs() > bar
            if not bool(dirty.any()):
                low = middle
                continue
            rest = (self.total - gap).abs() > 2 * (self.bar + bar)
            if bool(rest.any()):
                return low, high, False
            high = middle
        return low, high, True

    def _first(self, low: int, high: int) -> int:
        """The smallest wrong inner number."""
        clean, reach = low, 1
        while clean + reach < high and self._is_clean(
            self._inside(clean, clean + reach)
        ):
            clean, reach = clean + reach, reach * _GALLOP
        end = min(clean + reach, high)
        while end - clean > 1:
            middle = (clean + end) // 2
            if self._is_clean(self._inside(clean, middle)):
                clean = middle
            else:
                end = middle
        return clean

    def _last(self, low: int, high: int) -> int:
        """The largest wrong inner number."""
        clean, reach = high, 1
        while clean - reach > low and self._is_clean(
            self._inside(clean - reach, clean)
        ):
            clean, reach = clean - reach, reach * _GALLOP
        start = max(clean - reach, low)
        while clean - start > 1:
            middle = (start + clean) // 2
            if self._is_clean(self._inside(middle, clean)):
                clean = middle
            else:
                start = middle
        return clean - 1

    # -------------------------------------------------------------------- conclusions

    def _at_one(self, inner: int) -> Place:
        """What halving left: every other half was right, or the rest without it."""
        mask = self._inside(inner, inner + 1)
        return Place(name_of(self.suspect.elements(mask), self.suspect.field))

    def _between(self, first: int, last: int) -> Place:
        """The region with these ends: of the candidates, the smallest that holds."""
        suspect = self.suspect
        candidates: list[Region] = []
        for spans in self._spans(first, last):
            for region in consistent(
                suspect.field, spans, lambda m: self._fits(m, first, last)
            ):
                if all(not torch.equal(region.mask, c.mask) for c in candidates):
                    candidates.append(region)
        candidates.sort(key=lambda r: r.count)
        whole = self._inside(first, last + 1)
        if bool(whole.all()):
            candidates = [c for c in candidates if not c.everywhere]
        for region in candidates[:_MOST_CANDIDATES]:
            mask = suspect.flat(region.mask)
            if self._is_clean(~mask) and self._is_full(mask):
                return Place(region)
        if bool(whole.all()) and self._is_full(whole):
            return Place(everywhere(suspect.field))
        return self._among_zeros() or self._bounded(first, last)

    def _is_full(self, mask: Tensor) -> bool:
        """Whether no element of a candidate is right, as far as a few of them tell."""
        suspect = self.suspect
        inside = mask.nonzero().reshape(-1)
        values = suspect.values[inside]
        chosen = {int(values.argmax()), int(values.argmin()), inside.numel() // 2}
        for k in sorted(chosen):
            measured = suspect.at(int(inside[k]))
            if measured is None:
                continue
            said, true = measured
            gap, size = abs(true.value - said), max(abs(true.value), abs(said))
            if gap <= true.error < _CLEAR * size:
                return False
        return True

    def _among_zeros(self) -> Place | None:
        """Elements that get no gradient, where all that get one are right."""
        suspect = self.suspect
        zero = ~torch.stack(list(suspect.claims)).any(0)
        if not bool(zero.any()) or bool(zero.all()) or not self._is_clean(~zero):
            return None
        words = f"in elements of {suspect.name} whose gradient is zero"
        return Place(Region(words, "", suspect.elements(zero), exact=False))

    def _bounded(self, first: int, last: int) -> Place:
        suspect, shape = self.suspect, self.suspect.shape
        mask = self._inside(first, last + 1)
        hit = suspect.elements(mask)
        if int(torch.count_nonzero(hit)) > _MOST_VAGUE * hit.numel():
            return Place(None, sure=False)
        flat = hit.reshape(-1).nonzero().reshape(-1)
        ends = [element(suspect.name, shape, int(k)) for k in (flat[0], flat[-1])]
        words = f"between {ends[0]} and {ends[1]}"
        return Place(Region(words, "", hit, exact=False), sure=False)

    def _fits(self, mask: Tensor, first: int, last: int) -> bool:
        """Whether a candidate hits just the wrong cells, and has those ends."""
        flat = self.suspect.flat(mask)
        if not bool(flat.any()):
            return False
        inner = self.cells.inner[flat]
        if int(inner.min()) != first or int(inner.max()) != last:
            return False
        hit = torch.zeros_like(self.wrong_cells)
        hit[self.cells.of_element[flat]] = True
        return torch.equal(hit, self.wrong_cells)

    def _spans(self, first: int, last: int) -> list[Sequence[Span]]:
        """Boxes with those corners: along the cells' axes from the cells themselves."""
        shape = self.suspect.shape
        ends = []
        for number in (first, last):
            rest = [s for a, s in enumerate(shape) if a not in self.cells.axes]
            index = torch.unravel_index(torch.tensor(number), tuple(rest))
            ends.append([int(i) for i in index])
        cells = self.suspect.elements(self.wrong_cells[self.cells.of_element])
        inner_axis, sizes, options = 0, list(shape), [list[Span]()]
        for axis, size in enumerate(sizes):
            if axis in self.cells.axes:
                others = [a for a in range(cells.dim()) if a != axis]
                hit = cells.any(dim=others) if others else cells
                span = span_of(hit.nonzero().reshape(-1), size)
                choices = [span] if span is not None else [Span(0, size, 1, size)]
            else:
                low, high = ends[0][inner_axis], ends[1][inner_axis]
                inner_axis += 1
                if low > high:
                    return []
                choices = [Span(low, high + 1, 1, size)]
                choices += [
                    Span(low, high + 1, step, size)
                    for step in _STEPS
                    if high > low and (high - low) % step == 0
                ]
            options = [[*done, choice] for done in options for choice in choices]
        return list(options)
