"""Lines through a point on which every rung is exactly representable.

With q the spacing of the type at the far end, the smallest step is a multiple of q, so
that x + m d is exact for each rung multiplier m, of either sign; only a rung that crosses
a power of two that x itself is not on can be half a spacing off. Difference quotients
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
from numpy.random import Generator
from torch import Tensor

from backproof.probe.block import blocks
from backproof.probe.chance import signed, spread
from backproof.probe.domain import ANYWHERE, Domain
from backproof.probe.precision import Precision, spacing

_SAMPLE = 4096  # elements that a median is taken over; more would not sharpen a scale
_NO_SIGN = 1e-290  # a gradient smaller than this has no sign worth taking


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


def typical(values: Tensor, among: Tensor | None = None) -> float:
    """Median of the non-zero finite magnitudes, 1 where there are none.

    Args:
        values: any shape; a sample of some thousand is taken.
        among: count only these, boolean of the same shape.
    """
    stride = -(-values.numel() // _SAMPLE) if values.numel() > _SAMPLE else 1
    values = values[::stride] if stride > 1 else values
    if among is not None:
        values = values[among[::stride]]
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

    Magnitudes are random in [0.6, 1.4] times the relative step.

    Args:
        point: where the line starts.
        precision: whose relative step and rungs to use.
        generator: the random source.
        factor: multiplies the relative step.
        signs_of: take these signs where they are not zero, random ones elsewhere.
        frozen: elements to hold fixed, boolean (n,).
        level: equal elements move alike, all upwards: ties stay ties.
    """
    values = point.values
    least = 1.0 * typical(values)
    everywhere = is_finite(values)
    within = everywhere and bool((values.abs() <= 1).all())
    structure = _structure_room(point)
    step = torch.empty_like(values)
    for part in blocks(step.numel()):
        x = values[part]
        draw = signed(generator, x.numel())
        sign = torch.ones_like(x) if level else draw.clone()
        if signs_of is not None:
            # The draw decides where there is no sign to take.
            sign = torch.add(signs_of[part], sign, alpha=_NO_SIGN)
        size = x.abs()
        if not everywhere:
            size.nan_to_num_(0.0, 0.0, 0.0)
        room = _room(x, size, point.domain, within=within)
        if structure is not None:
            room = torch.minimum(room, structure[part])
        magnitude = spread(draw)
        if level:
            magnitude.fill_(1.0)
        wanted = magnitude.mul_(precision.step * factor).mul_(size.clamp(min=least))
        exact = _exact(wanted, size, room, point.dtype, precision.top)
        torch.copysign(exact, sign, out=step[part])
    if not everywhere:
        step.masked_fill_(~torch.isfinite(values), 0.0)
    if frozen is not None:
        step.masked_fill_(frozen, 0.0)
    if point.domain.structure is not None:
        step = _keep_structure(step, point, precision)
    return step


def is_finite(values: Tensor) -> bool:
    """Whether all are: a finite sum says so at once, and only an infinite one asks more."""
    return math.isfinite(float(values.sum())) or bool(torch.isfinite(values).all())


def _exact(
    wanted: Tensor, size: Tensor, room: Tensor, dtype: torch.dtype, top: float
) -> Tensor:
    """The multiples of the far end's spacing that are nearest to the wanted steps."""
    wanted = torch.minimum(wanted, room / top)
    quantum = spacing(torch.add(size, wanted, alpha=top), dtype)
    step = (wanted / quantum).round_().mul_(quantum)
    if step.numel() and float(step.min()) == 0:
        # At least one quantum, where that is not more than twice the room there is.
        lift = (step == 0) & (quantum * top < 2 * room)
        step = torch.where(lift, quantum, step)
    return step


def _room(x: Tensor, size: Tensor, domain: Domain, *, within: bool) -> Tensor:
    """How far the longest rung may reach: half the way to the nearest forbidden value.

    `within` says that the whole tensor lies in [-1, 1].
    """
    room = _unless_zero(0.5 * size)
    if within:
        room = torch.minimum(room, _unless_zero(0.5 - 0.5 * size))
    if domain.low > -math.inf:
        room = torch.minimum(room, 0.5 * (x - domain.low).clamp(min=0))
    if domain.high < math.inf:
        room = torch.minimum(room, 0.5 * (domain.high - x).clamp(min=0))
    return room


def _unless_zero(room: Tensor) -> Tensor:
    """No bound where there is no room at all: x lies on the forbidden value itself."""
    if room.numel() and float(room.min()) == 0:
        return torch.where(room > 0, room, math.inf)
    return room


def _structure_room(point: Point) -> Tensor | None:
    """The room that a structure leaves: sorted elements may not meet."""
    if point.domain.structure != "sorted":
        return None
    rows = point.values.reshape(point.shape)
    gaps = rows.diff(dim=-1).abs()
    end = torch.full_like(rows[..., :1], math.inf)
    gap = torch.minimum(torch.cat([end, gaps], -1), torch.cat([gaps, end], -1))
    return 0.25 * gap.reshape(-1)


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
