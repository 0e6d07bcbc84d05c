"""What is found out about a slope: in a name, in words, in numbers and in code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from backproof.records import Number


@dataclass(frozen=True)
class Shape:
    """A slope that all measured points agree with.

    Attributes:
        name: such as "clipped identity".
        words: such as "the identity on [-1, 1], zero outside".
        numbers: its parameters, for a report.
        gradients: expressions in the cotangent `g` and the inputs, the plainest first;
            they differ in rounding alone.
        softs: expressions in the inputs whose derivative it is, for every value.
    """

    name: str
    words: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    gradients: tuple[str, ...] = ()
    softs: tuple[str, ...] = ()


def scaled(factor: str, text: str) -> str:
    """`factor * text` without factors of one; a sum is put into brackets."""
    if factor == "1":
        return text
    if factor == "-1":
        return f"-{text}"
    return f"{text} * {enclosed(factor)}"


def enclosed(text: str) -> str:
    """In brackets, where it could not be multiplied as it is."""
    inner = text[1:] if text.startswith("-") else text
    plain = all(c not in inner for c in " ") or _is_bracketed(inner)
    return text if plain else f"({text})"


def _is_bracketed(text: str) -> bool:
    return text.startswith("(") and text.endswith(")") and text.count("(") == 1
