"""Points beside x, where ties are broken and kinks are left behind."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from numpy.random import Generator
from torch import Tensor

from backproof.battery.inquiry.base import Base
from backproof.errors import BadInput
from backproof.probe import Point, stream, typical
from backproof.trial import Refused, Trial

_STEP = 1 / 32  # on the steps there, so that they do not reach back to x
_SHARE = 0.01  # how far a point beside x lies, relative to each element


def beside(
    points: Sequence[Point],
    frozen: Sequence[Tensor | None],
    generator: Generator,
    *,
    flip: float,
    move_zeros: bool,
) -> list[Tensor]:
    """The values of each input moved by up to 1 %, equal elements spaced evenly apart.

    Args:
        points: where from.
        frozen: elements that stay, boolean (n_i,), or None.
        generator: the order in which equal elements come apart.
        flip: -1 reverses that order.
        move_zeros: whether zeros move too, upwards.
    """
    return [
        _moved(p.values, generator, flip, move_zeros=move_zeros, frozen=mask)
        for p, mask in zip(points, frozen, strict=True)
    ]


def verdict_beside(
    trial: Trial, base: Base, seed: int, *, move_zeros: bool, flip: float
) -> float | str | None:
    """The resolution of a pass at a point beside x, "wrong", or None for neither.

    Costs a whole inquiry.
    """
    from backproof.battery.inquiry.conclusion import Kind
    from backproof.battery.inquiry.inquiry import Inquiry  # which asks this in turn

    points = beside(
        trial.points,
        base.frozen,
        stream(seed, 900),
        flip=flip,
        move_zeros=move_zeros,
    )
    near = trial.at(points)
    try:
        inquiry = Inquiry(near, seed=seed, guarded=False)
        own = inquiry.base.precision
        inquiry.use(dataclasses.replace(own, step=own.step * _STEP))
        answer = inquiry.conclude()
    except (BadInput, Refused):
        return None
    if answer.kind is Kind.WRONG:
        return "wrong"
    if answer.kind is not Kind.RIGHT or answer.look is None:
        return None
    return answer.look.resolution


def _moved(
    x: Tensor,
    generator: Generator,
    flip: float,
    *,
    move_zeros: bool,
    frozen: Tensor | None,
) -> Tensor:
    n = x.numel()
    if not n:
        return x
    size = torch.where(torch.isfinite(x), x.abs(), 0.0)
    order = torch.from_numpy(generator.permutation(n)).double()
    shift = generator.random()
    level = flip * ((2 * order + shift) / n - 1)
    if float(size.max()) <= 1:
        level = (level - 1) / 2  # towards zero, so that [0, 1] and [-1, 1] are not left
    unit = torch.where(size > 0, size, typical(x) / 2 if move_zeros else 0.0)
    moved = x + torch.where(size > 0, x.sign() * level, level.abs()) * unit * _SHARE
    stay = ~torch.isfinite(x) if frozen is None else ~torch.isfinite(x) | frozen
    return torch.where(stay, x, moved)
