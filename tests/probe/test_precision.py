"""The grain of each type, and which settings apply."""

import math

import pytest
import torch
from hypothesis import given, settings

from backproof.probe import PRECISIONS, coarsest, nearest, real_dtype, spacing
from tests.probe.points import DTYPES, IDS, point_of, points

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=IDS)


def beside(values, dtype):
    """The distance to the next number above, by torch's own means."""
    x = values.to(dtype)
    up = torch.nextafter(x, torch.full_like(x, math.inf))
    return up.double() - x.double()


@each_dtype
def test_spacing_is_the_distance_to_the_next_number(dtype):
    @given(points(dtype))
    @settings(deadline=None, max_examples=100)
    def holds(point):
        size = point.values.abs()
        assert torch.equal(spacing(size, dtype), beside(size, dtype))
        assert torch.equal(spacing(-size, dtype), spacing(size, dtype))

    holds()


@each_dtype
def test_spacing_at_the_edges_of_the_type(dtype):
    info = torch.finfo(dtype)
    magnitudes = [
        0.0,
        info.smallest_normal,
        info.smallest_normal / 2,
        1.0,
        info.max / 2,
    ]
    size = point_of(magnitudes, dtype).values
    assert torch.equal(spacing(size, dtype), beside(size, dtype))


@each_dtype
def test_spacing_of_what_the_type_does_not_hold_is_that_of_the_number_below(dtype):
    third = torch.tensor([1 / 3, 4 / 3, 1e-3 / 3], dtype=torch.float64)
    eps = torch.finfo(dtype).eps
    expected = [eps * 2.0 ** math.floor(math.log2(v)) for v in third.tolist()]
    assert spacing(third, dtype).tolist() == expected


def test_spacing_leaves_its_argument_alone():
    size = torch.tensor([3.0, 0.1], dtype=torch.float64)
    spacing(size, torch.bfloat16)
    assert size.tolist() == [3.0, 0.1]


@each_dtype
def test_settings_belong_to_their_type(dtype):
    precision = PRECISIONS[dtype]
    assert precision.eps == torch.finfo(dtype).eps
    assert math.log2(precision.ratio).is_integer()  # rungs stay exact
    assert precision.top == precision.ratio**2
    assert precision.step * 1.4 * precision.top < 0.5  # half the way to zero at most
    assert 4 * precision.eps < precision.step  # a step is more than rounding
    for power in precision.decades:
        assert precision.step * 2.0**power > 4 * precision.eps


def test_types_are_listed_finest_first():
    grains = [precision.eps for precision in PRECISIONS.values()]
    assert grains == sorted(grains)
    for name in ("resolution", "null", "step", "linear", "rough"):
        settings_ = [getattr(precision, name) for precision in PRECISIONS.values()]
        assert settings_ == sorted(settings_), name


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ([torch.float64], torch.float64),
        ([torch.float64, torch.float32], torch.float32),
        ([torch.bfloat16, torch.float64, torch.float16], torch.bfloat16),
        ([torch.complex64, torch.float64], torch.float32),
        ([torch.complex128], torch.float64),
    ],
    ids=str,
)
def test_the_coarsest_type_decides(dtypes, expected):
    assert coarsest(dtypes) is PRECISIONS[expected]


def test_the_real_type_of_a_complex_one():
    assert real_dtype(torch.complex64) == torch.float32
    assert real_dtype(torch.complex128) == torch.float64
    assert real_dtype(torch.bfloat16) == torch.bfloat16


@each_dtype
@pytest.mark.parametrize("off", [1, 2, 1 / 2])
def test_a_grain_is_recognised_within_a_factor(dtype, off):
    found, precision = nearest(PRECISIONS[dtype].eps * off)
    assert found == dtype
    assert precision is PRECISIONS[dtype]
