"""Functions whose derivatives are written out, and the measurement of one of them.

The measurement uses the probe's pieces only, in the order in which the battery uses
them: two lines, a ladder on each, the response of every output, then two cotangents
(random signs, one sign) and the four slopes. The truth is the same linear form of the
written-out derivative, in float64, for the exact steps of the line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from backproof.probe import (
    PRECISIONS,
    Point,
    Slope,
    climb,
    direction,
    respond,
    signed,
    signs,
    slopes,
    spread,
    stream,
    typical,
)

_AVERAGED = 2**16  # elements; below, 16-bit types sum several ladders, as a check does


@dataclass(frozen=True)
class Known:
    """A function of one vector (n,) in any type, and its derivative along a tangent.

    `slope(x, v)` is the exact J v for float64 x and v; `draw(n, random)` gives a point.
    """

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]
    draw: Callable[[int, torch.Generator], Tensor]
    dtypes: tuple[torch.dtype, ...] = (torch.float64, torch.float32, torch.bfloat16)


@dataclass(frozen=True)
class Measurement:
    """One slope beside the truth; `size` of the truth is free of luck with signs."""

    slope: Slope
    truth: float
    size: float

    @property
    def error(self) -> float:
        return abs(self.slope.estimate.value - self.truth)

    @property
    def bar(self) -> float:
        return self.slope.estimate.error

    @property
    def is_inside(self) -> bool:
        return self.error <= self.bar


def measure(known: Known, n: int, dtype: torch.dtype, seed: int) -> list[Measurement]:
    """Two lines times two cotangents at one random point.

    Empty where the probe says that the function is not smooth at its steps.
    """
    precision = PRECISIONS[dtype]
    random = torch.Generator().manual_seed(seed)
    x = known.draw(n, random).to(dtype).double()
    point = Point(x, dtype, tuple(x.shape))

    def evaluate(inputs):
        return known.value(inputs[0].to(dtype)).double().reshape(-1)

    base = evaluate([x])
    elements = x.numel() + base.numel()
    repeats = max(1, min(precision.repeats, _AVERAGED // elements))
    ladders = []
    for number in range(2):
        along = direction(point, precision, stream(seed, number))
        lines = [
            [direction(point, precision, stream(seed, number, k), signs_of=along)]
            for k in range(repeats)
        ]
        ladders.append(climb(evaluate, [point], base, lines, precision.ratio))
    response = respond(
        ladders,
        base,
        precision,
        relative_step=precision.step,
        finite=torch.isfinite(base),
        floor=torch.full_like(base, typical(base)),
        groups=[slice(0, base.numel())],
    )
    if response.not_smooth:
        return []
    cotangents = [
        torch.where(response.smooth, sign * magnitude / response.weights(), 0.0)
        for sign, magnitude in (
            (signs(stream(seed, 2), base.numel()), _magnitude(seed, 3, base)),
            (1.0, _magnitude(seed, 4, base)),
        )
    ]
    found = slopes(ladders, response, cotangents)
    return [
        _beside_truth(slope, u, known.slope(x, ladder.steps[0]).reshape(-1))
        for ladder, row in zip(ladders, found, strict=True)
        for u, slope in zip(cotangents, row, strict=True)
    ]


def _magnitude(seed: int, number: int, like: Tensor) -> Tensor:
    return spread(signed(stream(seed, number), like.numel()))


def _beside_truth(slope: Slope, cotangent: Tensor, moved: Tensor) -> Measurement:
    terms = cotangent * moved
    truth = float(terms.sum())
    return Measurement(slope, truth, max(abs(truth), float(terms.norm())))


# ------------------------------------------------------------------------- the points


def _normal(n, random):
    return torch.randn(n, generator=random, dtype=torch.float64)


def _between(low, high):
    def draw(n, random):
        return low + (high - low) * torch.rand(n, generator=random, dtype=torch.float64)

    return draw


def _decades(low, high):
    return lambda n, random: 10 ** _between(low, high)(n, random)


# ---------------------------------------------------------------------- the functions


def _elementwise(value, derivative, draw=_normal, **more):
    return Known(value, lambda x, v: derivative(x) * v, draw, **more)


def _rows(x):
    """Rows of eight, or one row where x does not divide."""
    return x.reshape(-1, 8) if x.numel() % 8 == 0 else x.reshape(1, -1)


def _matrix(x):
    """The same numbers in every type; its side is a row's."""
    side = _rows(x).shape[1]
    random = torch.Generator().manual_seed(side)
    matrix = torch.randn(side, side, generator=random, dtype=torch.float64)
    return (matrix / side**0.5).bfloat16().to(x.dtype)


def _softmax_slope(x, v):
    y, v = torch.softmax(_rows(x), -1), _rows(v)
    return y * (v - (y * v).sum(-1, keepdim=True))


def _logsumexp_slope(x, v):
    return (torch.softmax(_rows(x), -1) * _rows(v)).sum(-1)


def _rms(x):
    return torch.rsqrt(_rows(x).square().mean(-1, keepdim=True) + 0.0625)


def _unit_slope(x, v):
    rows, v, r = _rows(x), _rows(v), _rms(x)
    return v * r - rows * r**3 * (rows * v).mean(-1, keepdim=True)


def _quadratic_slope(x, v):
    matrix = _matrix(x)
    return ((_rows(x) @ (matrix + matrix.T)) * _rows(v)).sum()


def _product_slope(x, v):
    x, v = _rows(x)[:, :8], _rows(v)[:, :8]
    return x.prod(-1) * (v / x).sum(-1)


_FINE = (torch.float64, torch.float32)
_ONLY_FLOAT64 = (torch.float64,)

KNOWN = {
    "sin": _elementwise(torch.sin, torch.cos),
    "exp": _elementwise(torch.exp, torch.exp),
    "tanh 5x": _elementwise(
        lambda x: torch.tanh(5 * x), lambda x: 5 / torch.cosh(5 * x) ** 2
    ),
    "sin 50x": _elementwise(
        lambda x: torch.sin(50 * x), lambda x: 50 * torch.cos(50 * x), dtypes=_FINE
    ),
    "x^3": _elementwise(lambda x: x**3, lambda x: 3 * x**2),
    "1e6 + sin": _elementwise(lambda x: 1e6 + torch.sin(x), torch.cos),
    "log near 1e-6": _elementwise(torch.log, torch.reciprocal, _decades(-6.5, -5.5)),
    "log over six decades": _elementwise(torch.log, torch.reciprocal, _decades(-3, 3)),
    "sqrt": _elementwise(torch.sqrt, lambda x: 0.5 / x.sqrt(), _decades(-4, 1)),
    "1/x": _elementwise(torch.reciprocal, lambda x: -1 / x**2, _decades(-1, 1)),
    "x exp(-x^2)": _elementwise(
        lambda x: x * torch.exp(-x * x), lambda x: (1 - 2 * x * x) * torch.exp(-x * x)
    ),
    "x^3 near 1e4": _elementwise(
        lambda x: x**3, lambda x: 3 * x**2, lambda n, random: 1e4 + _normal(n, random)
    ),
    "sum of squares": Known(
        lambda x: (x * x).sum(), lambda x, v: (2 * x * v).sum(), _normal
    ),
    "matrix product": Known(
        lambda x: _rows(x) @ _matrix(x), lambda x, v: _rows(v) @ _matrix(v), _normal
    ),
    "x'Ax": Known(
        lambda x: ((_rows(x) @ _matrix(x)) * _rows(x)).sum(), _quadratic_slope, _normal
    ),
    "softmax": Known(lambda x: torch.softmax(_rows(x), -1), _softmax_slope, _normal),
    "logsumexp": Known(
        lambda x: torch.logsumexp(_rows(x), -1), _logsumexp_slope, _normal
    ),
    "rsqrt norm": Known(lambda x: _rows(x) * _rms(x), _unit_slope, _normal),
    "product of eight": Known(
        lambda x: _rows(x)[:, :8].prod(-1), _product_slope, _between(0.5, 1.5)
    ),
    "sin, float32 inside": _elementwise(
        lambda x: x.float().sin().double(), torch.cos, dtypes=_ONLY_FLOAT64
    ),
    "softmax, float32 inside": Known(
        lambda x: torch.softmax(_rows(x).float(), -1).double(),
        _softmax_slope,
        _normal,
        _ONLY_FLOAT64,
    ),
}
