"""Lines through a point on which every rung is exactly representable.

With q the spacing of the type at the far end, the smallest step is a multiple of q, so
that x + m d is exact for each rung multiplier m, of either sign. Difference quotients
then lie on one line, without the usual correction h = (x + h) - x.

Steps are relative to each element, and never cross zero, a bound of the domain, or, for
a tensor that lies in [-1, 1], the ends of that interval. That removes the kinks of
relu, abs and clamp and the domain faults of log, sqrt and asin without being told the
domain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from backproof.probe.domain import ANYWHERE, Domain
from backproof.probe.precision import Precision, spacing

_SAMPLE = 4096  # elements that a median is taken over; more would not sharpen a scale
_LEAST, _SPREAD = 0.6, 0.8  # magnitudes in [0.6, 1.4]: see `direction`


@dataclass(frozen=True)
class Point:
    """One differentiable input: its values as float64 (n,), its type, where it may go.

    `shape` is the shape of the input as the subject sees it (for complex inputs with a
    last axis of two), which only structured domains need.
    """

    values: Tensor
    dtype: torch.dtype
    shape: tuple[int, ...]
    domain: Domain = ANYWHERE


def typical(values: Tensor) -> float:
    """Median of the non-zero finite magnitudes, 1 where there are none."""
    if values.numel() > _SAMPLE:
        values = values[:: -(-values.numel() // _SAMPLE)]
    values = values.abs()
    values = values[(values > 0) & (values < math.inf)]
    return float(values.median()) if values.numel() else 1.0


def direction(
    point: Point,
    precision: Precision,
    generator: Generator,
    *,
    factor: float = 1.0,
    signs_of: Tensor | None = None,
    frozen: Tensor | None = None,
    level: bool = False,
) -> Tensor:
    """The smallest step for each element, signed: float64 (n,), zero where held fixed.

    Magnitudes are random in [0.6, 1.4] times the relative step: bounded below, so that
    a single wrong element is always seen, and not constant, so that two equal errors do
    not cancel.

    Args:
        point: where the line starts.
        precision: whose relative step and rungs to use.
        generator: the random source.
        factor: multiplies the relative step.
        signs_of: take these signs where they are not zero, random ones elsewhere.
        frozen: elements to hold fixed, boolean (n,).
        level: equal elements move alike, all upwards: ties stay ties.
    """
    x = point.values
    draw = torch.rand(x.shape, generator=generator, dtype=torch.float64).mul_(2)
    negative = draw >= 1
    draw -= negative.to(torch.float64)
    magnitude = draw.mul_(_SPREAD).add_(_LEAST)
    if level:
        magnitude.fill_(1.0)
        negative.fill_(False)
    if signs_of is not None:
        negative = torch.where(signs_of != 0, signs_of < 0, negative)
    step = _exact(point, precision, magnitude.mul_(precision.step * factor))
    if frozen is not None:
        step = step.masked_fill_(frozen, 0.0)
    step = torch.where(negative, -step, step)
    if point.domain.structure is not None:
        step = _keep_structure(step, point, precision)
    return step


def _exact(point: Point, precision: Precision, relative: Tensor) -> Tensor:
    """Unsigned steps near `relative` times the scale of each element."""
    x, top = point.values, precision.top
    size = x.abs()
    finite = torch.isfinite(size)
    everywhere = bool(finite.all())
    if not everywhere:
        size = torch.where(finite, size, 0.0)
    wanted = relative.mul_(size.clamp(min=0.5 * typical(size)))
    room = _room(point, size)
    wanted = torch.minimum(wanted, room / top)
    quantum = spacing(size + top * wanted, point.dtype)
    step = torch.round(wanted / quantum).mul_(quantum)
    # At least one quantum, where that is not more than twice the room that there is.
    lift = (step == 0) & (quantum * top <= 2 * room)
    if bool(lift.any()):
        step = torch.where(lift, quantum, step)
    return step if everywhere else step.masked_fill_(~finite, 0.0)


def _room(point: Point, size: Tensor) -> Tensor:
    """How far the longest rung may reach: half the way to the nearest forbidden value."""
    room = torch.where(size > 0, 0.5 * size, math.inf)
    if size.numel() and bool(size.max() <= 1):
        edge = 0.5 * (1 - size)
        room = torch.where(edge > 0, torch.minimum(room, edge), room)
    domain, x = point.domain, point.values
    if domain.low > -math.inf:
        room = torch.minimum(room, 0.5 * (x - domain.low).clamp(min=0))
    if domain.high < math.inf:
        room = torch.minimum(room, 0.5 * (domain.high - x).clamp(min=0))
    if domain.structure == "sorted":
        rows = x.reshape(point.shape)
        gaps = rows.diff(dim=-1).abs()
        end = torch.full_like(rows[..., :1], math.inf)
        gap = torch.minimum(torch.cat([end, gaps], -1), torch.cat([gaps, end], -1))
        room = torch.minimum(room, 0.25 * gap.reshape(-1))
    return room


def _keep_structure(step: Tensor, point: Point, precision: Precision) -> Tensor:
    """The step projected onto the directions that keep the structure."""
    d = step.reshape(point.shape)
    if point.domain.structure in ("spd", "sym"):
        upper = d.triu()
        return (upper + upper.triu(1).mT).reshape(-1)
    if point.domain.structure == "simplex":
        # Moves in pairs: what one element gains its neighbour loses.
        pairs = d.shape[-1] // 2
        even, odd = d[..., 0 : 2 * pairs : 2], d[..., 1 : 2 * pairs : 2]
        moved = torch.copysign(torch.minimum(even.abs(), odd.abs()), even)
        quantum = spacing(
            point.values.abs().max() * torch.ones_like(moved), point.dtype
        )
        moved = torch.round(moved / quantum) * quantum
        d = torch.zeros_like(d)
        d[..., 0 : 2 * pairs : 2], d[..., 1 : 2 * pairs : 2] = moved, -moved
        return d.reshape(-1)
    return step
