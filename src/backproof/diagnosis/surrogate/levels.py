"""Slopes that are constant between jumps: the identity, clipped or not, steps."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.diagnosis.surrogate.curve import Curve
from backproof.diagnosis.surrogate.plain_number import (
    Number,
    exact,
    plain_numbers,
    shortest_between,
)
from backproof.diagnosis.surrogate.shape import Shape, enclosed, scaled

_MOST_LEVELS = 4
_MOST_JUMPS = 4
_LONG = 8  # characters of a decimal that a fraction may stand for
_PARTS = 13  # that an interval with a jump is cut into at once, where calls allow it


@dataclass(frozen=True)
class Jump:
    """A bound of the argument at which the slope changes.

    Attributes:
        at: the bound, as it is written.
        value: the number of the input's type that it is there.
        includes: whether the slope at the bound itself is that above it.
        located: whether both neighbours of the bound have been asked.
    """

    at: Number
    value: float
    includes: bool
    located: bool

    def above(self, text: str) -> str:
        """The condition on what lies above it."""
        return f"{text} {'>=' if self.includes else '>'} {self.at.text}"

    def below(self, text: str) -> str:
        """The condition on what lies below it."""
        return f"{text} {'<' if self.includes else '<='} {self.at.text}"


def steps(curve: Curve, hints: Sequence[float]) -> Shape | None:
    """The shape of a slope that has few values, None where it has more."""
    levels = _levels(curve)
    if levels is None:
        return None
    jumps = jumps_between(curve, hints, lambda slope: _level_of(curve, levels, slope))
    if jumps is None:
        return None
    parts = _parts(curve, jumps)
    if parts is None or not _holds(curve, jumps, parts):
        return None
    shape = _shape(curve.argument.text, jumps, parts)
    if all(jump.located for jump in jumps):
        return shape
    return dataclasses.replace(shape, words=f"{shape.words}; bounds are approximate")


def jumps_between(
    curve: Curve, hints: Sequence[float], level: Callable[[float], object]
) -> list[Jump] | None:
    """Where the level of a slope changes; None where it does so too often."""
    while True:
        changes = _changes(curve, level)
        if len(changes) > _MOST_JUMPS:
            return None
        wide = [(a, b) for a, b in changes if curve.beside(a)[1] < b]
        if not wide or curve.left <= 0:
            return [_jump(curve, a, b, hints) for a, b in changes]
        asked: list[float] = []
        share = max(1, min(_PARTS, curve.size // len(wide) - 5))
        for low, high in wide:
            middle = shortest_between(low, high, hints)
            beside = (
                *(curve.beside(low)[1], curve.beside(high)[0], middle),
                *curve.beside(middle),
            )
            inner = [low + (high - low) * k / (share + 1) for k in range(1, share + 1)]
            asked += [v for v in (*beside, *inner) if low < v < high]
        before = len(curve.points)
        curve.ask(asked)
        if len(curve.points) == before:
            return [_jump(curve, a, b, hints) for a, b in changes]


def _changes(
    curve: Curve, level: Callable[[float], object]
) -> list[tuple[float, float]]:
    values, slopes = curve.known
    numbers = [level(s) for s in slopes.tolist()]
    pairs = zip(values.tolist(), values.tolist()[1:], strict=False)
    return [pair for k, pair in enumerate(pairs) if numbers[k] != numbers[k + 1]]


def _jump(curve: Curve, low: float, high: float, hints: Sequence[float]) -> Jump:
    if curve.beside(low)[1] < high:
        middle = shortest_between(low, high, hints)
        return Jump(exact(middle), middle, includes=True, located=False)
    if not curve.argument.exact:  # its values are known to a few roundings
        reach = 4 * (high - low)
        plain = exact(shortest_between(low - reach, high + reach))
        if len(plain.text) < _LONG:
            upper = plain.value > low
            return Jump(plain, high if upper else low, includes=upper, located=True)
    below, above = _text(curve, low), _text(curve, high)
    if len(below.text) < len(above.text):
        return Jump(below, low, includes=False, located=True)
    return Jump(above, high, includes=True, located=True)


def _text(curve: Curve, value: float) -> Number:
    """The plainest text that rounds to a number of the input's type."""
    short = exact(curve.shortest(value))
    if len(short.text) < _LONG:
        return short
    for number in plain_numbers(value, 1e-6 * abs(value)):
        if curve.representable(number.value) == value:
            return number
    return short


def _levels(curve: Curve) -> list[float] | None:
    found: list[float] = []
    for slope in curve.points.values():
        if _level_of(curve, found, slope) < 0:
            found.append(slope)
            if len(found) > _MOST_LEVELS:
                return None
    return found


def _level_of(curve: Curve, levels: Sequence[float], slope: float) -> int:
    reach = float(curve.allowed(torch.tensor(abs(slope), dtype=torch.float64)))
    for k, level in enumerate(levels):
        if abs(level - slope) <= reach and (level == 0) == (slope == 0):
            return k
    return -1


def _parts(curve: Curve, jumps: Sequence[Jump]) -> list[Number] | None:
    """The level of each part, from below."""
    values, slopes = curve.known
    found = []
    for k in range(len(jumps) + 1):
        inside = slopes[within(values, jumps, k)]
        if not inside.numel():
            return None
        value = float(inside[inside.numel() // 2])
        reach = float(curve.allowed(inside.abs().max()))
        number = next(plain_numbers(value, reach)) if value else exact(0.0)
        found.append(number)
    return found


def within(values: Tensor, jumps: Sequence[Jump], part: int) -> Tensor:
    """Which values lie in a part, counted from below; boolean (n,)."""
    mask = torch.ones_like(values, dtype=torch.bool)
    if part > 0:
        mask &= _above(values, jumps[part - 1])
    if part < len(jumps):
        mask &= ~_above(values, jumps[part])
    return mask


def _above(values: Tensor, jump: Jump) -> Tensor:
    return values >= jump.value if jump.includes else values > jump.value


def _holds(curve: Curve, jumps: Sequence[Jump], parts: Sequence[Number]) -> bool:
    """Whether fresh points, and all others, have the level of their part."""
    curve.ask(between(curve))
    values, slopes = curve.known
    expected = torch.zeros_like(values)
    for k, part in enumerate(parts):
        expected[within(values, jumps, k)] = part.value
    off = (slopes - expected).abs() > curve.allowed(slopes)
    if jumps and not all(j.located for j in jumps):
        return int(off.sum()) <= len(jumps)
    return not bool(off.any())


def between(curve: Curve, most: int = 24) -> list[float]:
    """Fresh values amid those that are known, evenly over them."""
    values, _ = curve.known
    middles = (values[1:] + 0.618 * (values[:-1] - values[1:])).tolist()
    return middles[:: max(1, -(-len(middles) // most))]


def _shape(text: str, jumps: Sequence[Jump], parts: Sequence[Number]) -> Shape:
    zeros = [part.value == 0 for part in parts]
    if not jumps:
        return _constant(text, parts[0])
    if zeros == [True, False, True]:
        return _clipped(text, jumps, parts[1])
    if zeros in ([True, False], [False, True]):
        return _one_sided(text, jumps[0], parts[zeros.index(False)], upper=zeros[0])
    return Shape(
        "steps",
        ", ".join(_step(text, jumps, parts, k) for k in range(len(parts))),
        {
            "levels": [part.value for part in parts],
            "bounds": [jump.at.value for jump in jumps],
        },
        (_where(text, jumps, parts),),
    )


def _one_sided(text: str, bound: Jump, level: Number, *, upper: bool) -> Shape:
    condition = bound.above(text) if upper else bound.below(text)
    softs: tuple[str, ...] = ()
    if upper and not bound.includes and bound.at.value == 0:
        softs = (scaled(level.text, f"torch.relu({text})"),)
    elif bound.includes == upper:  # as clamp has it
        side = "min" if upper else "max"
        softs = (
            scaled(level.text, f"{_bracketed(text)}.clamp({side}={bound.at.text})"),
        )
    return Shape(
        "identity on one side" if level.value == 1 else "constant on one side",
        f"{_identity(level)} where `{condition}`, zero elsewhere",
        {"low" if upper else "high": bound.at.value, "factor": level.value},
        (scaled(level.text, f"g * ({condition})"),),
        softs,
    )


def _bracketed(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


def _constant(text: str, level: Number) -> Shape:
    if level.value == 0:
        return Shape("zero", "nothing: it is zero", {}, ("g * 0",), ())
    name = {1.0: "identity", -1.0: "negated identity"}.get(level.value, "constant")
    said = {
        1.0: "the identity (straight through)",
        -1.0: "the negated cotangent",
    }.get(level.value, f"the cotangent times {level.text}")
    factor = enclosed(level.text)
    gradient = scaled(factor, "g")
    soft = scaled(factor, _bracketed(text))
    return Shape(name, said, {"factor": level.value}, (gradient,), (soft,))


def _clipped(text: str, jumps: Sequence[Jump], level: Number) -> Shape:
    low, high = jumps
    bracketed = _bracketed(text)
    closed_below, closed_above = low.includes, not high.includes
    left, right = "[" if closed_below else "(", "]" if closed_above else ")"
    a, b = low.at, high.at
    condition = f"({low.above(text)}) & ({high.below(text)})"
    if a.value == -b.value and closed_below == closed_above:
        condition = f"{bracketed}.abs() {'<=' if closed_above else '<'} {b.text}"
    softs: tuple[str, ...] = ()
    if closed_below and closed_above:
        softs = (scaled(level.text, f"{bracketed}.clamp({a.text}, {b.text})"),)
    elif not closed_below and not closed_above:
        hard = f"torch.nn.functional.hardtanh({text}, {a.text}, {b.text})"
        softs = (scaled(level.text, hard),)
    width = b.value - a.value
    area = math.isclose(abs(level.value) * width, 1.0, rel_tol=1e-6)
    name = "clipped identity" if level.value == 1 else "rectangle"
    said = _identity(level)
    whole = " (its area is 1)" if area and level.value != 1 else ""
    where = f"on {left}{a.text}, {b.text}{right}"
    if not text.isidentifier():
        where += f" of `{text}`"
    return Shape(
        name,
        f"{said} {where}, zero outside{whole}",
        {
            "low": a.value,
            "high": b.value,
            "factor": level.value,
            "includes_low": int(closed_below),
            "includes_high": int(closed_above),
        },
        (scaled(level.text, f"g * ({condition})"),),
        softs,
    )


def _identity(level: Number) -> str:
    if level.value == 1:
        return "the identity"
    if level.value == -1:
        return "the negated identity"
    if level.value == 0:
        return "zero"
    return f"the cotangent times {level.text}"


def _step(text: str, jumps: Sequence[Jump], parts: Sequence[Number], k: int) -> str:
    bounds = []
    if k > 0:
        bounds.append(jumps[k - 1].above(text))
    if k < len(jumps):
        bounds.append(jumps[k].below(text))
    condition = " and ".join(bounds)
    if len(bounds) == 2 and jumps[k - 1].at == jumps[k].at:
        condition = f"{text} == {jumps[k].at.text}"
    return f"{_identity(parts[k])} where `{condition}`"


def _where(text: str, jumps: Sequence[Jump], parts: Sequence[Number]) -> str:
    expression = scaled(parts[0].text, "g")
    for jump, part in zip(jumps, parts[1:], strict=True):
        mine = scaled(part.text, "g")
        expression = f"torch.where({jump.above(text)}, {mine}, {expression})"
    return expression
