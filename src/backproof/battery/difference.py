"""The largest difference between two runs that should agree, and how to say it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from backproof.diagnosis.region import Field, Region, element, name_of
from backproof.diagnosis.relation import relation_of

_LEAST = 3  # elements on either side of a condition on values
_LARGE = 2**22  # elements beyond which regions are not searched for


@dataclass(frozen=True)
class Sides:
    """Both tensors in full, and what their elements may be named by.

    Shapes: float64 (n,) both and boolean (n,); pairs of reals where they are complex.
    """

    got: Tensor
    expected: Tensor
    wrong: Tensor
    here: Callable[[], Field]


@dataclass(frozen=True)
class Difference:
    """The largest difference between two tensors of one name.

    Attributes:
        name: of the input whose gradient it is, or of the output.
        share: the difference, in units of the element or of a typical one.
        allowed: what rounding explains, in the same unit.
        at: flat index of the element.
        got: the number there.
        expected: the number that it should be.
        count: elements that differ by more than is allowed.
        total: elements in all.
        sides: both tensors, where they have one form.
    """

    name: str
    share: float
    allowed: float
    at: int = 0
    got: float = 0.0
    expected: float = 0.0
    count: int = 0
    total: int = 0
    sides: Sides | None = field(default=None, repr=False, compare=False)

    @property
    def is_real(self) -> bool:
        """Whether it is more than rounding."""
        return not self.share <= self.allowed

    @property
    def becomes(self) -> str:
        """What it does beside what it should be: "is zero", "changes"."""
        sides = self.sides
        if sides is None:
            return "changes its form"
        found = relation_of(sides.got[sides.wrong], sides.expected[sides.wrong])
        return f"is {found}" if found else "changes"

    @cached_property
    def region(self) -> Region | None:
        """The elements that differ."""
        if self.sides is None or self.sides.wrong.numel() > _LARGE:
            return None
        here, wrong = self.sides.here(), self.sides.wrong
        if wrong.numel() == 2 * _count(here) and wrong.numel():
            wrong = wrong.reshape(-1, 2).any(dim=1)  # pairs of reals
        return name_of(wrong.reshape(here.shape), here)

    @property
    def extent(self) -> str:
        """How many elements differ, and which where that is a pattern."""
        region = self.region
        if region is None:
            return f"{self.count:,} of {self.total:,} elements differ"
        if region.everywhere:
            few = region.mask.numel() == 1
            return (
                "its only element" if few else f"all {region.count:,} elements differ"
            )
        if region.count == 1:
            return f"1 of {region.mask.numel():,} elements differs"
        total = region.mask.numel()
        return f"{region.count:,} of {total:,} elements differ{self.pattern}"

    @property
    def pattern(self) -> str:
        """A colon and the region where several elements differ in a pattern, or nothing."""
        region = self.region
        if region is None or region.everywhere or region.count == 1:
            return ""
        return f": {region.words}" if _tells(region) else ""

    @property
    def element(self) -> str:
        """The name of the worst element, such as `x[3, 0]`."""
        assert self.sides is not None
        here = self.sides.here()
        pairs = _count(here) != self.total
        return element(here.name, here.shape, self.at // 2 if pairs else self.at)

    @property
    def words(self) -> str:
        """Both numbers, where, and how many."""
        if self.sides is None:
            return f"another number of elements than {self.total}"
        got, expected = self.got + 0.0, self.expected + 0.0  # no minus before a zero
        return f"{got:.6g} instead of {expected:.6g} at {self.element}; {self.extent}"

    @property
    def numbers(self) -> dict[str, float | int | str]:
        """The same for a report."""
        return {
            "name": self.name,
            "departure": self.share,
            "allowed": self.allowed,
            "got": self.got,
            "expected": self.expected,
            "elements_wrong": self.count,
            "elements": self.total,
        }


def between(
    name: str, got: Tensor, expected: Tensor, wrong: Tensor, here: Callable[[], Field]
) -> Difference:
    """The difference of two tensors that are known to differ in some elements.

    Args:
        name: of the input whose gradient it is, or of the output.
        got: float64 (n,).
        expected: float64 (n,).
        wrong: the elements that differ, boolean (n,), at least one.
        here: what they may be named by.
    """
    gap = (got - expected).abs().nan_to_num(math.inf, math.inf, math.inf)
    at = int(torch.where(wrong, gap, -1.0).argmax())
    return Difference(
        name,
        float(gap[at]) / max(float(expected[at].abs()), 1e-300),
        0.0,
        at,
        float(got[at]),
        float(expected[at]),
        int(torch.count_nonzero(wrong)),
        wrong.numel(),
        Sides(got, expected, wrong, here),
    )


def _tells(region: Region) -> bool:
    """Whether it has a pattern, and one that few elements do not show by chance."""
    if region.words.startswith("scattered"):
        return False
    fewer = min(region.count, region.mask.numel() - region.count)
    return fewer >= _LEAST or not region.words.startswith("where")


def _count(here: Field) -> int:
    return torch.Size(here.shape).numel()
