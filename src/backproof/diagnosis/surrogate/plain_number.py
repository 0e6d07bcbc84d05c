"""The plainest number near a value, as it is written in code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_MOST_DIGITS = 4  # of a decimal that is plain
_LARGEST_DIVISOR = 32
_CONSTANTS = (
    ("torch.pi", math.pi),
    ("torch.pi**0.5", math.sqrt(math.pi)),
    ("2**0.5", math.sqrt(2.0)),
    ("(2 * torch.pi) ** 0.5", math.sqrt(2.0 * math.pi)),
)


@dataclass(frozen=True)
class Number:
    """A value, and how it is written."""

    value: float
    text: str

    def __neg__(self) -> Number:
        """The same with the other sign."""
        if self.text.startswith("-"):
            return Number(-self.value, self.text[1:])
        return Number(-self.value, f"-{self.text}")


def exact(value: float) -> Number:
    """A number as Python writes it, a whole one without its point."""
    if value == int(value) and abs(value) < 1e6:
        return Number(value, str(int(value)))
    return Number(value, repr(value))


def shortest_between(low: float, high: float, hints: Iterable[float] = ()) -> float:
    """The plainest number strictly between two others: a hint, a decimal, a fraction."""
    for hint in hints:
        if low < hint < high:
            return hint
    if low < 0 < high:
        return 0.0
    largest = max(abs(low), abs(high))
    gap = high - low
    top = math.floor(math.log10(largest)) if largest < math.inf else 3
    for place in range(top, top - 2 - _MOST_DIGITS, -1):
        found = _multiple(low, high, 10.0**place)
        if found is not None:
            return found
        if gap > 1e-2 * largest:
            continue
        for divisor in range(2, _LARGEST_DIVISOR):
            found = _multiple(low, high, 1.0 / divisor)
            if found is not None and place <= top - 2:
                return found
    return low + gap / 2


def plain_numbers(value: float, reach: float) -> Iterator[Number]:
    """Numbers within `reach` of a value, the plainest first, the value itself last."""
    seen: set[float] = set()
    for number in _plain(value):
        if abs(number.value - value) <= reach and number.value not in seen:
            seen.add(number.value)
            yield number
    yield exact(value)


def _plain(value: float) -> Iterator[Number]:
    if value == 0:
        return
    yield from _decimals(value, 3)
    yield from _fractions(value)
    for text, constant in _CONSTANTS:
        for scaled in _short(value / constant):
            yield Number(scaled.value * constant, _times(scaled.text, text))
        for scaled in _short(value * constant):
            divisor = text if "*" not in text or text[0] == "(" else f"{text}"
            yield Number(scaled.value / constant, f"{scaled.text} / {divisor}")
    yield from _decimals(value, _MOST_DIGITS)


def _times(factor: str, text: str) -> str:
    if factor in ("1", "-1"):
        return f"{factor[:-1]}{text}"
    return f"{factor} * {text}"


def _short(value: float) -> Iterator[Number]:
    yield from _decimals(value, 2)
    for divisor in (3, 6):
        whole = round(value * divisor)
        if 0 < abs(whole) < 10:
            yield Number(whole / divisor, f"{whole} / {divisor}")


def _decimals(value: float, digits: int) -> Iterator[Number]:
    for used in range(1, digits + 1):
        text = f"{value:.{used}g}"
        yield exact(float(text))


def _fractions(value: float) -> Iterator[Number]:
    for divisor in range(3, _LARGEST_DIVISOR):
        whole = round(value * divisor)
        if 0 < abs(whole) < 100:
            yield Number(whole / divisor, f"{whole} / {divisor}")


def _multiple(low: float, high: float, unit: float) -> float | None:
    """The multiple of `unit` strictly in between that is nearest to the middle."""
    whole = round((low + high) / 2 / unit)
    divided = round(1 / unit) if unit < 1 else 0
    found = whole / divided if divided else whole * unit
    return found if low < found < high else None


def hints_of(scalars: Sequence[float]) -> list[float]:
    """Values that a bound may have where an op takes these numbers."""
    found: dict[float, None] = {}
    for one in scalars:
        if not 0 < abs(one) < math.inf:
            continue
        for value in (one, 1 / one, one / 2, 0.5 / one):
            found.update({value: None, -value: None})
    return list(found)
