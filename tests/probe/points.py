"""Points of every kind for hypothesis, and exact arithmetic to judge lines by."""

import math
from fractions import Fraction

import torch
from hypothesis import strategies as st

from backproof.probe import ANYWHERE, PRECISIONS, Point

DTYPES = list(PRECISIONS)
IDS = [str(dtype).removeprefix("torch.") for dtype in DTYPES]
FACTORS = (1.0, 1 / 8, 1 / 64, 4.0)
_LOWEST = {  # half a dozen subnormal numbers lie below each
    torch.float64: 2.0**-1071,
    torch.float32: 2.0**-146,
    torch.float16: 2.0**-21,
    torch.bfloat16: 2.0**-130,
}


def values_of(dtype):
    """Float64 values that `dtype` represents: ordinary, zero, tiny, subnormal, huge."""
    huge = torch.finfo(dtype).max / 4
    tiny = torch.finfo(dtype).smallest_normal
    magnitudes = st.one_of(
        st.floats(0.001, 1),
        st.floats(1, 1000),
        st.sampled_from([0.0, 0.5, 1.0, 2.0, 1 - torch.finfo(dtype).eps]),
        st.floats(tiny, 64 * tiny),
        st.floats(0, tiny),
        st.integers(0, 6).map(lambda k: k * _LOWEST[dtype] / 8),
        st.floats(huge / 1000, huge),
    )
    return st.tuples(magnitudes, st.sampled_from([1.0, -1.0])).map(math.prod)


def rounded(value, dtype):
    return torch.tensor(value, dtype=torch.float64).to(dtype).item()


def point_of(values, dtype, domain=ANYWHERE, shape=None):
    tensor = torch.tensor(values, dtype=torch.float64).reshape(-1).to(dtype).double()
    return Point(tensor, dtype, shape or tuple(tensor.shape), domain)


@st.composite
def points(draw, dtype, values=None, max_size=12):
    elements = values if values is not None else values_of(dtype)
    return point_of(draw(st.lists(elements, min_size=1, max_size=max_size)), dtype)


def rungs(precision):
    r = precision.ratio
    return [side * m for m in (1, r, r * r) for side in (1, -1)]


def reached(point, step, precision):
    """Every x + m d as exact fractions: one list of numbers for each rung."""
    x = [Fraction(v) for v in point.values.tolist()]
    d = [Fraction(v) for v in step.tolist()]
    return [[a + m * b for a, b in zip(x, d, strict=True)] for m in rungs(precision)]


def assert_exact(point, rung):
    """Each number of the rung is one of the type's, unless its exponent is higher.

    Beyond the next power of two numbers lie twice as far apart, and an odd multiple of
    the finer spacing lands half way between two of them.
    """
    doubles = [float(value) for value in rung]  # exact whenever a double can be
    stored = torch.tensor(doubles, dtype=torch.float64).to(point.dtype).tolist()
    for start, value, held in zip(point.values.tolist(), rung, stored, strict=True):
        own = abs(value) <= Fraction(2) ** math.frexp(start)[1]
        assert not own or Fraction(held) == value, (start, float(value))
