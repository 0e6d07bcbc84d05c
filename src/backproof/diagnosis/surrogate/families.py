"""The usual soft slopes: one line each, fitted and then held against other points.

A family is a profile p with p(0) = 1; a slope is c * p(k * (x - t)). For each k and t
the best c is known, so two numbers are looked for, from half of the points. They are
then replaced by the plainest numbers that fit, and all points decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.diagnosis.surrogate.curve import Curve
from backproof.diagnosis.surrogate.levels import (
    Jump,
    between,
    jumps_between,
    within,
)
from backproof.diagnosis.surrogate.plain_number import (
    Number,
    exact,
    plain_numbers,
    shortest_between,
)
from backproof.diagnosis.surrogate.shape import Shape, enclosed, scaled
from backproof.records import Number as Recorded

_FEWEST = 8  # points with a slope: fewer would fit too many families
_ITERATIONS = 30
_HOPELESS = 1e4  # mean square of misfits in bars: so far off, and no longer falling
_NEARLY = 1e-3  # of a parameter: what a plainer number may be off by before it is tried
_EDGE = 1e-2  # of the largest slope: one that ends higher than this has been cut off
_SHORT = 12  # characters of a number that is plain
_DEGREES = (1, 2, 3)


@dataclass(frozen=True)
class Family:
    """A profile, and how it is written.

    Attributes:
        name: what people call it.
        profile: p(z), float64 (n,) -> (n,).
        half: the z at which it is one half.
        gradients: what `g` is multiplied by, in terms of {z}; ready to stand after `g`.
        soft: its integral in terms of {z}, empty where torch has none that is exact.
        constant: what the soft function is to be divided by, to have slope 1 at 0.
    """

    name: str
    profile: Callable[[Tensor], Tensor]
    half: float
    gradients: tuple[str, ...]
    soft: str = ""
    constant: str = ""


FAMILIES = (
    Family(
        "a triangle",
        lambda z: (1 - z.abs()).clamp(min=0),
        0.5,
        ("* (1 - {z}.abs()).clamp(min=0)",),
    ),
    Family(
        "a parabola",
        lambda z: (1 - z * z).clamp(min=0),
        0.7071,
        ("* (1 - {z} ** 2).clamp(min=0)",),
    ),
    Family(
        "the derivative of arctan",
        lambda z: 1 / (1 + z * z),
        1.0,
        ("/ (1 + {z} ** 2)",),
        "torch.atan({inner})",
    ),
    Family(
        "the derivative of softsign",
        lambda z: 1 / (1 + z.abs()) ** 2,
        0.4142,
        ("/ (1 + {z}.abs()) ** 2",),
        "torch.nn.functional.softsign({inner})",
    ),
    Family(
        "the derivative of log",
        lambda z: 1 / (1 + z.abs()),
        1.0,
        ("/ (1 + {z}.abs())",),
    ),
    Family(
        "an exponential",
        lambda z: torch.exp(-z.abs()),
        0.6931,
        ("* torch.exp(-{z}.abs())",),
    ),
    Family(
        "a gaussian",
        lambda z: torch.exp(-z * z),
        0.8326,
        ("* torch.exp(-({z} ** 2))",),
        "torch.erf({inner})",
        "2 / torch.pi**0.5",
    ),
    Family(
        "the derivative of tanh",
        lambda z: 4 * torch.sigmoid(2 * z) * torch.sigmoid(-2 * z),
        0.8814,
        ("* (1 - torch.tanh({inner}) ** 2)", "/ torch.cosh({inner}) ** 2"),
        "torch.tanh({inner})",
    ),
    Family(
        "the derivative of x / sqrt(1 + x^2)",
        lambda z: (1 + z * z) ** -1.5,
        0.7664,
        ("/ (1 + {z} ** 2) ** 1.5",),
    ),
    Family(
        "a sigmoid",
        torch.sigmoid,
        0.0,
        ("* torch.sigmoid({inner})",),
    ),
)


@dataclass(frozen=True)
class Fit:
    """c * p(k * (x - t)), each with the way that it is written."""

    family: Family
    factor: Number
    slope: Number
    centre: Number

    @property
    def length(self) -> int:
        """How many characters its numbers take."""
        return sum(len(n.text) for n in (self.factor, self.slope, self.centre))

    def __call__(self, values: Tensor) -> Tensor:
        """Float64 (n,) -> (n,)."""
        z = self.slope.value * (values - self.centre.value)
        return self.factor.value * self.family.profile(z)


def smooth(curve: Curve, hints: Sequence[float]) -> Shape | None:
    """The shape of a slope that is one of the families, maybe cut off."""
    _refine(curve)
    found = _fitting(curve, None, 0, hints)
    if found is not None:
        return _shape(found, curve, None)
    polynomial = _polynomial(curve)
    if polynomial is not None:
        return polynomial
    window = _window(curve, hints)
    if window is None:
        return None
    jumps, part = window
    found = _fitting(curve, jumps, part, hints)
    return None if found is None else _shape(found, curve, (jumps, part))


def _refine(curve: Curve) -> None:
    """Ask where the slope changes most from point to point, twice."""
    for _ in range(3):
        values, slopes = curve.known
        if values.numel() < 3:
            return
        change = (slopes[1:] - slopes[:-1]).abs()
        few = max(4, min(12, 2 * curve.size))
        most = change.argsort(descending=True)[:few]
        curve.ask(((values[most] + values[most + 1]) / 2).tolist())


# ------------------------------------------------------------------------------ fitting


def _fitting(
    curve: Curve, jumps: Sequence[Jump] | None, part: int, hints: Sequence[float]
) -> Fit | None:
    """The plainest family that fits; the points beside those fitted, and fresh ones."""
    values, slopes = _inside(curve, jumps, part)
    if int((slopes != 0).sum()) < _FEWEST:
        return None
    fitting: list[Fit] = []
    for family in FAMILIES:
        for start in _starts(family, values, slopes, hints):
            found = _fit(curve, family, start, values[::2], slopes[::2])
            if found is None or not _holds(curve, found, values, slopes):
                continue
            found = _plainest(curve, found, values, slopes, hints)
            curve.ask(between(curve))
            values, slopes = _inside(curve, jumps, part)
            if _holds(curve, found, values, slopes):
                fitting.append(found)
            break
        if fitting and jumps is None:
            break
    # The tail of one family may be another's: with the plainest numbers it is the one.
    return min(fitting, key=lambda fit: fit.length, default=None)


def _inside(
    curve: Curve, jumps: Sequence[Jump] | None, part: int
) -> tuple[Tensor, Tensor]:
    values, slopes = curve.known
    if jumps is None:
        return values, slopes
    mask = within(values, jumps, part)
    return values[mask], slopes[mask]


def _starts(
    family: Family, values: Tensor, slopes: Tensor, hints: Sequence[float]
) -> Iterator[tuple[float, float]]:
    """(k, t) to begin with."""
    size = slopes.abs()
    top = int(size.argmax())
    if family.half == 0:  # monotone: its middle is where it is half as high
        crossing = int((size - size.max() / 2).abs().argmin())
        rising = 1.0 if float(slopes[-1].abs()) > float(slopes[0].abs()) else -1.0
        quarter = int((size - size.max() / 4).abs().argmin())
        width = abs(float(values[crossing] - values[quarter])) or 1.0
        for factor in (1.1, 4.0, 0.3):
            yield rising * factor / width, float(values[crossing])
        return
    low = (size[: top + 1] < size[top] / 2).nonzero().reshape(-1)
    high = (size[top:] < size[top] / 2).nonzero().reshape(-1)
    reach = [float(values[top] - values[low[-1]])] if low.numel() else []
    reach += [float(values[top + high[0]] - values[top])] if high.numel() else []
    width = min((r for r in reach if r > 0), default=float(values[-1] - values[0]))
    above, below = values[min(top + 1, len(values) - 1)], values[max(top - 1, 0)]
    plain = shortest_between(float(below), float(above), hints)
    for centre in dict.fromkeys((plain, float(values[top]), 0.0)):
        for factor in (1.0, 3.0, 0.3):
            yield factor * family.half / max(width, 1e-300), centre


def _fit(
    curve: Curve,
    family: Family,
    start: tuple[float, float],
    values: Tensor,
    slopes: Tensor,
) -> Fit | None:
    """Levenberg and Marquardt, for k and t; the centre stays where it is if it fits."""
    weight = 1 / curve.allowed(slopes).clamp(min=1e-300)

    def left(k: float, t: float) -> tuple[Tensor, float]:
        p = family.profile(k * (values - t)) * weight
        square = float(p @ p)
        c = float(p @ (slopes * weight)) / square if square > 0 else 0.0
        return c * p - slopes * weight, c

    k, t = start
    for free in ((True, False), (True, True)):
        k, t, c = _descend(left, k, t, free)
        if c == 0 or not all(map(math.isfinite, (c, k, t))):
            return None
        found = Fit(family, exact(c), exact(k), exact(t))
        if _holds(curve, found, values, slopes):
            break
    return found


def _descend(
    left: Callable[[float, float], tuple[Tensor, float]],
    k: float,
    t: float,
    free: tuple[bool, bool],
) -> tuple[float, float, float]:
    damping = 1e-3
    now, c = left(k, t)
    size = float(now @ now)
    for _ in range(_ITERATIONS):
        columns = []
        if free[0]:
            h = 1e-6 * k
            columns.append((left(k + h, t)[0] - left(k - h, t)[0]) / (2e-6))
        if free[1]:
            h = 1e-6 / abs(k)
            columns.append((left(k, t + h)[0] - left(k, t - h)[0]) / (2e-6))
        jacobian = torch.stack(columns, 1)
        square = jacobian.T @ jacobian
        diagonal = torch.diag(square.diagonal().clamp(min=1e-300))
        step = torch.linalg.lstsq(
            square + damping * diagonal, -(jacobian.T @ now)[:, None]
        ).solution[:, 0]
        moved = step.tolist()
        if not all(map(math.isfinite, moved)):
            break
        new_k = k * math.exp(max(-1.0, min(1.0, moved[0]))) if free[0] else k
        new_t = t + moved[-1] / abs(k) if free[1] else t
        after, new_c = left(new_k, new_t)
        new_size = float(after @ after)
        if new_size < size:
            done = size - new_size < 1e-12 * size
            slow = size - new_size < 0.02 * size
            done |= slow and size > _HOPELESS * now.numel()
            k, t, c, now, size = new_k, new_t, new_c, after, new_size
            damping = max(damping / 10, 1e-12)
            if done:
                break
        else:
            damping *= 10
            if damping > 1e8:
                break
    return k, t, c


def _holds(curve: Curve, found: Fit, values: Tensor, slopes: Tensor) -> bool:
    """Whether it is the slope at all these values, within rounding."""
    return not bool(((found(values) - slopes).abs() > _bar(curve, found, values)).any())


def _bar(curve: Curve, found: Fit, values: Tensor) -> Tensor:
    expected = found(values)
    reach = 4 * curve.eps * (values.abs() + abs(found.centre.value))
    moved = (found(values + reach) - expected).abs()
    moved = torch.maximum(moved, (found(values - reach) - expected).abs())
    return curve.allowed(expected) + moved


def _plainest(
    curve: Curve,
    found: Fit,
    values: Tensor,
    slopes: Tensor,
    hints: Sequence[float],
) -> Fit:
    """The same with plainer numbers, as far as these fit as well: t, then k, then c."""
    family = found.family
    for centre in _centres(curve, found, hints):
        again = _refit(curve, family, values, slopes, found.slope.value, centre)
        if again is not None:
            found = again
            break
    for slope in _numbers_near(found.slope.value):
        c = _factor(curve, family, slope.value, found.centre.value, values, slopes)
        again = Fit(family, exact(c), slope, found.centre)
        if _holds(curve, again, values, slopes):
            found = again
            break
    for factor in _numbers_near(found.factor.value):
        again = Fit(family, factor, found.slope, found.centre)
        if _holds(curve, again, values, slopes):
            return again
    return found


def _centres(curve: Curve, found: Fit, hints: Sequence[float]) -> Iterator[Number]:
    value, width = found.centre.value, 1 / abs(found.slope.value)
    yield exact(0.0)  # one that is cut off may fit with any centre
    for hint in hints:
        if abs(value - hint) < _NEARLY * width:
            yield exact(hint)
    yield from plain_numbers(value, _NEARLY * width)


def _numbers_near(value: float) -> Iterator[Number]:
    return plain_numbers(value, _NEARLY * abs(value))


def _refit(
    curve: Curve,
    family: Family,
    values: Tensor,
    slopes: Tensor,
    slope: float,
    centre: Number,
) -> Fit | None:
    """With another centre, which stays; None where that does not fit."""
    weight = 1 / curve.allowed(slopes).clamp(min=1e-300)

    def left(k: float, t: float) -> tuple[Tensor, float]:
        p = family.profile(k * (values - t)) * weight
        square = float(p @ p)
        c = float(p @ (slopes * weight)) / square if square > 0 else 0.0
        return c * p - slopes * weight, c

    k, _, c = _descend(left, slope, centre.value, (True, False))
    found = Fit(family, exact(c), exact(k), centre)
    return found if _holds(curve, found, values, slopes) else None


def _factor(
    curve: Curve, family: Family, k: float, t: float, values: Tensor, slopes: Tensor
) -> float:
    weight = 1 / curve.allowed(slopes).clamp(min=1e-300)
    p = family.profile(k * (values - t)) * weight
    square = float(p @ p)
    return float(p @ (slopes * weight)) / square if square > 0 else 0.0


# ------------------------------------------------------------------------- cut off, else


def _window(curve: Curve, hints: Sequence[float]) -> tuple[list[Jump], int] | None:
    """Where a slope that is zero elsewhere is not, if it ends there with a jump."""
    jumps = jumps_between(curve, hints, lambda slope: slope != 0)
    if not jumps or len(jumps) > 2:
        return None
    values, slopes = curve.known
    parts = [slopes[within(values, jumps, k)] for k in range(len(jumps) + 1)]
    inside = [k for k, part in enumerate(parts) if bool(part.any())]
    if len(inside) != 1:
        return None
    part = parts[inside[0]]
    ends = [float(part[0].abs())] if inside[0] > 0 else []
    ends += [float(part[-1].abs())] if inside[0] < len(jumps) else []
    if all(end < _EDGE * curve.largest for end in ends):
        return None
    return jumps, inside[0]


def _polynomial(curve: Curve) -> Shape | None:
    """The lowest polynomial that all points lie on."""
    values, slopes = curve.known
    size = float(values.abs().max())
    near = values.abs() <= min(size, 8 * float(values.abs().median()))
    x, y = values[near], slopes[near]
    for degree in _DEGREES:
        if x.numel() < 2 * degree + _FEWEST:
            return None
        powers = torch.stack([x**n for n in range(degree + 1)], 1)
        weight = 1 / curve.allowed(y).clamp(min=1e-300)
        solved = torch.linalg.lstsq(
            powers[::2] * weight[::2, None], (y * weight)[::2, None]
        ).solution[:, 0]
        numbers = _coefficients(curve, solved.tolist())
        if numbers is not None:
            return _written(curve, numbers)
    return None


def _coefficients(curve: Curve, solved: Sequence[float]) -> list[Number] | None:
    """The plainest coefficients that fit, from the lowest on; None where none do."""
    numbers = [exact(c) for c in solved]
    if not _lies_on(curve, numbers):
        return None
    for power, value in enumerate(solved):
        for number in (exact(0.0), *plain_numbers(value, _NEARLY * abs(value))):
            plainer = [*numbers[:power], number, *numbers[power + 1 :]]
            if _lies_on(curve, plainer):
                numbers = plainer
                break
    return numbers


def _lies_on(curve: Curve, numbers: Sequence[Number]) -> bool:
    values, slopes = curve.known
    powers = torch.stack([values**n for n in range(len(numbers))], 1)
    terms = powers * torch.tensor([n.value for n in numbers], dtype=torch.float64)
    bar = curve.allowed(slopes) + 8 * curve.eps * terms.abs().sum(1)
    return not bool(((terms.sum(1) - slopes).abs() > bar).any())


def _written(curve: Curve, numbers: Sequence[Number]) -> Shape:
    text = curve.argument.text
    x = text if text.isidentifier() else f"({text})"
    terms = []
    for power, number in enumerate(numbers):
        if number.value == 0:
            continue
        base = {0: "", 1: x}.get(power, f"{x} ** {power}")
        terms.append(scaled(number.text, base) if base else number.text)
    said = " + ".join(terms).replace("+ -", "- ")
    return Shape(
        "polynomial",
        f"the cotangent times {said}",
        {"coefficients": [n.value for n in numbers]},
        (f"g * ({said})",),
    )


# ------------------------------------------------------------------------------- words


def _shape(fit: Fit, curve: Curve, window: tuple[Sequence[Jump], int] | None) -> Shape:
    text = curve.argument.text
    shifted = _shifted(text, fit.centre)
    slope, factor = fit.slope, fit.factor
    family, z = fit.family, _argument(shifted, slope)
    name, soft = family.name, ""
    numbers: dict[str, Recorded] = {
        "slope": slope.value,
        "threshold": fit.centre.value,
        "factor": factor.value,
    }
    inner = _without_brackets(z)
    forms = [form.format(z=z, inner=inner) for form in family.gradients]
    logistic = _as_sigmoid(fit, shifted, 64 * curve.eps)
    if logistic is not None:
        name, forms, soft = logistic
        numbers["slope"] = 2 * slope.value
        gradients = tuple(f"g {form}" for form in forms)
    else:
        gradients = tuple(f"{scaled(factor.text, 'g')} {form}" for form in forms)
        if family.soft:
            soft = _soft(fit, z)
    words = f"the derivative of `{soft}`" if soft else f"{name}, `{gradients[0]}`"
    if window is not None:
        jumps, part = window
        bounds = [jumps[part - 1].above(text)] if part > 0 else []
        bounds += [jumps[part].below(text)] if part < len(jumps) else []
        condition = " & ".join(f"({b})" for b in bounds)
        words += f" where `{' and '.join(bounds)}`, zero elsewhere"
        gradients = tuple(f"({one}) * ({condition})" for one in gradients)
        soft = ""
        if part > 0:
            numbers["low"] = jumps[part - 1].at.value
        if part < len(jumps):
            numbers["high"] = jumps[part].at.value
    return Shape(name, words, numbers, gradients, (soft,) if soft else ())


def _as_sigmoid(
    fit: Fit, shifted: str, reach: float
) -> tuple[str, list[str], str] | None:
    """(name, forms, soft) where it is the derivative of a sigmoid as it stands."""
    k, c = 2 * fit.slope.value, fit.factor.value
    if fit.family.name != "the derivative of tanh" or not math.isclose(
        c, k / 4, rel_tol=min(reach, 1e-4)
    ):
        return None
    slope = next(plain_numbers(k, 4e-16 * abs(k)))
    z = _argument(shifted, slope)
    inner = _without_brackets(z)
    one = f"torch.sigmoid({inner})"
    factor = "" if k == 1 else f"* {enclosed(slope.text)} "
    forms = [
        f"{factor}* {one} * (1 - {one})",
        f"{factor}* {one} * torch.sigmoid(-{z})",
        f"{scaled(fit.factor.text, '')} * (1 - torch.tanh({inner} / 2) ** 2)".strip(),
    ]
    return "the derivative of sigmoid", forms, one


def _shifted(text: str, centre: Number) -> str:
    if centre.value == 0:
        return text if text.isidentifier() else f"({text})"
    if centre.value < 0:
        return f"({text} + {enclosed((-centre).text)})"
    return f"({text} - {enclosed(centre.text)})"


def _argument(shifted: str, slope: Number) -> str:
    """k * (x - t), ready to be raised or asked for its magnitude."""
    if slope.value == 1:
        return shifted
    if slope.value == -1:
        return f"(-{shifted})"
    if slope.text.startswith("1 / "):
        return f"({shifted} / {enclosed(slope.text[4:])})"
    return f"({enclosed(slope.text)} * {shifted})"


def _without_brackets(z: str) -> str:
    return z[1:-1] if z.startswith("(") else z


def _soft(fit: Fit, z: str) -> str:
    """The soft function whose derivative is the slope."""
    family, k, c = fit.family, fit.slope, fit.factor
    constant = {"": 1.0, "2 / torch.pi**0.5": 2 / math.sqrt(math.pi)}[family.constant]
    whole = family.soft.format(inner=_without_brackets(z))
    scale = c.value / (k.value * constant)
    number = next(plain_numbers(scale, 4e-16 * abs(scale)))
    if number.text.startswith("1 / "):
        return f"{whole} / {enclosed(number.text[4:])}"
    if len(number.text) <= _SHORT:
        return scaled(number.text, whole)
    factor = scaled(c.text, whole)
    if family.constant:
        return f"{factor} / ({enclosed(k.text)} * {family.constant})"
    return f"{factor} / {enclosed(k.text)}"
