"""Lines are exact, and never go where the input may not go."""

import itertools
import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backproof.probe import PRECISIONS, Domain, direction, stream, typical
from tests.probe.points import (
    DTYPES,
    FACTORS,
    IDS,
    assert_exact,
    point_of,
    points,
    reached,
    rounded,
    values_of,
)

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=IDS)
quick = settings(deadline=None, max_examples=40)


@each_dtype
@given(data=st.data())
@quick
def test_every_rung_is_exact(dtype, data):
    precision = PRECISIONS[dtype]
    point = data.draw(points(dtype))
    factor = data.draw(st.sampled_from(FACTORS))
    level = data.draw(st.booleans())
    step = direction(point, precision, stream(1), factor=factor, level=level)
    for rung in reached(point, step, precision):
        assert_exact(point, rung)


@each_dtype
@given(data=st.data())
@quick
def test_no_rung_crosses_zero(dtype, data):
    precision = PRECISIONS[dtype]
    point = data.draw(points(dtype))
    factor = data.draw(st.sampled_from(FACTORS))
    step = direction(point, precision, stream(2), factor=factor)
    for rung in reached(point, step, precision):
        for start, value in zip(point.values.tolist(), rung, strict=True):
            assert start * float(value) >= 0, (start, float(value))


@each_dtype
@given(data=st.data())
@quick
def test_a_tensor_within_minus_one_and_one_stays_there(dtype, data):
    precision = PRECISIONS[dtype]
    edge = 1 - torch.finfo(dtype).eps
    inside = st.floats(-edge, edge).map(lambda v: rounded(v, dtype))
    point = data.draw(points(dtype, inside))
    step = direction(point, precision, stream(3))
    for rung in reached(point, step, precision):
        for start, value in zip(point.values.tolist(), rung, strict=True):
            if abs(start) < 1:  # what lies on the end itself may leave it
                assert abs(value) <= 1, (start, float(value))


@each_dtype
def test_one_element_beyond_one_frees_the_others(dtype):
    precision = PRECISIONS[dtype]
    near = [rounded(0.99, dtype)] * 8
    kept = direction(point_of([*near, 0.5], dtype), precision, stream(4))
    free = direction(point_of([*near, 1.5], dtype), precision, stream(4))
    assert bool((free[:8].abs() >= kept[:8].abs()).all())
    if precision.step > 1e-3:  # where a step is long enough to reach the end
        assert bool((free[:8].abs() > kept[:8].abs()).any())


@each_dtype
@given(data=st.data())
@quick
def test_steps_are_relative_to_each_element(dtype, data):
    precision = PRECISIONS[dtype]
    ordinary = st.floats(0.1, 100).map(lambda v: rounded(v, dtype))
    point = data.draw(points(dtype, ordinary))
    step = direction(point, precision, stream(5)).abs()
    size = point.values.abs()
    grain = torch.finfo(dtype).eps * 2 * size
    longest = 1.4 * precision.step * size.clamp(min=typical(size))  # small ones more
    assert bool((step > 0).all())
    assert bool((step <= longest + grain).all())
    shortest = torch.minimum(0.6 * precision.step * size, 0.5 * size / precision.top)
    if bool((size > 1).any()):
        assert bool((step >= shortest - grain).all())


@each_dtype
def test_zeros_move_and_what_is_not_finite_does_not(dtype):
    precision = PRECISIONS[dtype]
    point = point_of([0.0, 3.0, math.inf, -math.inf, math.nan, -2.0], dtype)
    step = direction(point, precision, stream(6))
    assert (step != 0).tolist() == [True, True, False, False, False, True]


@each_dtype
def test_signs_follow_where_there_is_one_and_are_random_elsewhere(dtype):
    precision = PRECISIONS[dtype]
    point = point_of([2.0] * 400, dtype)
    wanted = torch.zeros(400, dtype=torch.float64)
    wanted[:100], wanted[100:200] = 1e-30, -3.0
    step = direction(point, precision, stream(7), signs_of=wanted)
    assert bool((step[:100] > 0).all())
    assert bool((step[100:200] < 0).all())
    assert 50 < int((step[200:] > 0).sum()) < 150


@each_dtype
def test_frozen_elements_stay(dtype):
    precision = PRECISIONS[dtype]
    frozen = torch.arange(50) % 3 == 0
    step = direction(point_of([1.5] * 50, dtype), precision, stream(8), frozen=frozen)
    assert torch.equal(step == 0, frozen)


@each_dtype
@given(data=st.data())
@quick
def test_level_lines_move_all_up_and_keep_ties(dtype, data):
    precision = PRECISIONS[dtype]
    few = data.draw(st.lists(values_of(dtype), min_size=1, max_size=3))
    drawn = data.draw(st.lists(st.sampled_from(few), min_size=2, max_size=12))
    point = point_of(drawn, dtype)
    step = direction(point, precision, stream(9), level=True)
    assert bool((step >= 0).all())
    of = {}
    for start, moved in zip(point.values.tolist(), step.tolist(), strict=True):
        assert of.setdefault(start, moved) == moved


def test_magnitudes_are_neither_constant_nor_small():
    point = point_of([1.5] * 2000, torch.float64)
    precision = PRECISIONS[torch.float64]
    size = direction(point, precision, stream(10)).abs() / (1.5 * precision.step)
    assert float(size.min()) == pytest.approx(0.6, abs=0.01)
    assert float(size.max()) == pytest.approx(1.4, abs=0.01)
    assert float(size.std()) == pytest.approx(0.8 / math.sqrt(12), rel=0.05)


def test_the_stream_decides():
    point = point_of([1.5] * 20, torch.float64)
    precision = PRECISIONS[torch.float64]
    one, again, other = (direction(point, precision, stream(s)) for s in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_blocks_of_a_long_vector_are_one_line():
    values = torch.linspace(0.5, 1.5, 20_001, dtype=torch.float64)
    point = point_of(values.tolist(), torch.float64)
    step = direction(point, PRECISIONS[torch.float64], stream(11))
    assert bool((step != 0).all())
    later = step[8192:16384] / step[:8192]
    assert float(later.abs().std()) > 0.1  # a block does not repeat the one before


# ------------------------------------------------------------------------- domains


@each_dtype
@given(data=st.data())
@quick
def test_bounds_are_kept(dtype, data):
    precision = PRECISIONS[dtype]
    low, high = data.draw(st.sampled_from([(0.0, 1.0), (-2.0, 0.5), (3.0, 40.0)]))
    eps = torch.finfo(dtype).eps
    span = high - low
    inside = st.floats(low + 8 * eps * span, high - 8 * eps * span)
    inside = inside.map(lambda v: rounded(v, dtype)).filter(lambda v: low < v < high)
    drawn = data.draw(st.lists(inside, min_size=1, max_size=12))
    point = point_of(drawn, dtype, Domain(low, high))
    factor = data.draw(st.sampled_from(FACTORS))
    step = direction(point, precision, stream(12), factor=factor)
    for rung in reached(point, step, precision):
        assert_exact(point, rung)
        for value in rung:
            assert low <= value <= high, (point.values.tolist(), float(value))


@each_dtype
@given(data=st.data())
@quick
def test_sorted_stays_sorted(dtype, data):
    precision = PRECISIONS[dtype]
    drawn = sorted(data.draw(st.lists(values_of(dtype), min_size=2, max_size=12)))
    point = point_of(drawn, dtype, Domain(structure="sorted"))
    drawn = point.values.tolist()
    factor = data.draw(st.sampled_from(FACTORS))
    step = direction(point, precision, stream(13), factor=factor)
    for rung in reached(point, step, precision):
        assert_exact(point, rung)
        for (a, b), (y, z) in zip(
            itertools.pairwise(drawn), itertools.pairwise(rung), strict=True
        ):
            assert y <= z
            assert a < b or y == z


@each_dtype
@pytest.mark.parametrize("structure", ["sym", "spd"])
@given(data=st.data())
@quick
def test_symmetric_stays_symmetric(dtype, structure, data):
    precision = PRECISIONS[dtype]
    n = data.draw(st.integers(1, 3))
    entries = data.draw(st.lists(values_of(dtype), min_size=n * n, max_size=n * n))
    upper = torch.tensor([entries, entries[::-1]], dtype=torch.float64)
    upper = upper.reshape(2, n, n).triu()
    whole = upper + upper.triu(1).mT
    point = point_of(
        whole.reshape(-1).tolist(), dtype, Domain(structure=structure), (2, n, n)
    )
    step = direction(point, precision, stream(14))
    matrices = step.reshape(2, n, n)
    assert torch.equal(matrices, matrices.mT)
    for rung in reached(point, step, precision):
        assert_exact(point, rung)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=IDS[:2])
@pytest.mark.parametrize("n", [2, 6, 20])
def test_positive_definite_stays_positive_definite(dtype, n):
    precision = PRECISIONS[dtype]
    random = torch.Generator().manual_seed(n)
    square = torch.randn(n, n, generator=random, dtype=torch.float64)
    matrix = (square @ square.mT / n + torch.eye(n)).to(dtype).double()
    matrix = (matrix + matrix.mT) / 2
    point = point_of(
        matrix.reshape(-1).tolist(), dtype, Domain(structure="spd"), (n, n)
    )
    step = direction(point, precision, stream(15))
    assert bool((step != 0).any())
    for rung in reached(point, step, precision):
        moved = torch.tensor([float(v) for v in rung]).double().reshape(n, n)
        assert int(torch.linalg.cholesky_ex(moved).info) == 0


@each_dtype
@given(data=st.data())
@quick
@example(data=None)
def test_the_simplex_keeps_its_sum(dtype, data):
    precision = PRECISIONS[dtype]
    if data is None:
        weights = [3, 1, 1, 2, 1]
    else:
        weights = data.draw(st.lists(st.integers(1, 50), min_size=2, max_size=9))
    total = sum(weights)
    shares = [rounded(w / total, dtype) for w in weights]
    point = point_of(shares, dtype, Domain(0.0, 1.0, "simplex"))
    step = direction(point, precision, stream(16))
    for rung in reached(point, step, precision):
        assert sum(rung) == sum(reached(point, 0 * step, precision)[0])
        assert_exact(point, rung)
        assert all(0 < value < 1 for value in rung)


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=IDS[:2])
def test_the_simplex_moves(dtype):
    shares = torch.softmax(torch.arange(8.0), -1).tolist()
    point = point_of(shares, dtype, Domain(structure="simplex"))
    step = direction(point, PRECISIONS[dtype], stream(17))
    assert int((step != 0).sum()) >= 6


# ------------------------------------------------------------------------- typical


def test_typical_is_the_median_of_what_counts():
    values = torch.tensor([0.0, 0.0, 0.0, -3.0, 1.0, 2.0, math.inf, math.nan])
    assert typical(values) == 2
    assert typical(values, values != 2) == 1  # the lower of two middles
    assert typical(torch.zeros(3)) == 1
    assert typical(torch.empty(0)) == 1


def test_typical_samples_evenly():
    assert typical(torch.linspace(0, 2, 100_001)) == pytest.approx(1, rel=1e-3)
