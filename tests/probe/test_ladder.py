"""Forms on six values: exact for polynomials, and as noisy as they say."""

import math

import numpy as np
import pytest
import torch

from backproof.probe import Ladder, climb, move
from backproof.probe.ladder import forms
from tests.probe.points import point_of, rungs

RATIOS = (2, 4)
DERIVATIVES = {"first": 2, "second": 2, "third": 2, "near": 4, "far": 4, "best": 6}
NAMES = (*DERIVATIVES, "odd", "even", "kink")
each_ratio = pytest.mark.parametrize("ratio", RATIOS)


class Settings:
    def __init__(self, ratio):
        self.ratio = ratio


def along(function, ratio):
    """The six values of a function of the rung's multiplier."""
    values = [function(m) - function(0.0) for m in rungs(Settings(ratio))]
    return torch.tensor(values, dtype=torch.float64)


def asked(name, ratio, values):
    return float(getattr(forms(ratio), name).weights @ values)


@each_ratio
@pytest.mark.parametrize(("name", "degree"), DERIVATIVES.items())
def test_derivatives_are_exact_up_to_their_degree(ratio, name, degree):
    for power in range(1, degree + 1):
        values = along(lambda t, k=power: t**k, ratio)
        largest = float(values.abs().max())
        expected = 1.0 if power == 1 else 0.0
        assert asked(name, ratio, values) == pytest.approx(
            expected, abs=1e-14 * largest
        )
    beyond = along(lambda t: t ** (degree + 1), ratio)
    assert abs(asked(name, ratio, beyond)) > 0.5


@each_ratio
@pytest.mark.parametrize(("name", "degree"), [("odd", 4), ("even", 5)])
def test_contrasts_vanish_up_to_their_degree(ratio, name, degree):
    for power in range(1, degree + 1):
        values = along(lambda t, k=power: t**k, ratio)
        assert asked(name, ratio, values) == pytest.approx(
            0, abs=1e-14 * float(values.abs().max())
        )
    beyond = along(lambda t: t ** (degree + 1), ratio)
    assert abs(asked(name, ratio, beyond)) > 0.5


@each_ratio
def test_the_kink_form_is_half_the_gap_between_the_sides(ratio):
    def bent(t):  # slopes -2 and 5, and a curvature that is the same on both sides
        return (5 * t if t > 0 else -2 * -t) + 3 * t**2

    assert asked("kink", ratio, along(bent, ratio)) == pytest.approx(1.5)
    assert asked("kink", ratio, along(abs, ratio)) == pytest.approx(1)
    for power in (1, 2, 3):
        smooth = along(lambda t, k=power: t**k, ratio)
        assert asked("kink", ratio, smooth) == pytest.approx(0, abs=1e-12)


@each_ratio
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [1, 8])
def test_the_gain_is_the_deviation_that_noise_gives(ratio, name, count):
    random = np.random.default_rng([NAMES.index(name), ratio, count])
    trials = 60_000
    base = random.standard_normal(trials)
    total = np.zeros((6, trials))
    for _ in range(count):
        total += random.standard_normal((6, trials)) - base
    form = getattr(forms(ratio), name)
    measured = float((form.weights.numpy() @ total).std())
    assert measured == pytest.approx(form.gain(count), rel=0.02)


def test_climbing_calls_forward_six_times_a_line_and_sums_lines():
    points = [point_of([1.0, 2.0], torch.float64), point_of([3.0], torch.float64)]
    lines = [
        [torch.tensor([0.5, 0.25]).double(), None],
        [torch.tensor([1.0, 0.0]).double(), torch.tensor([2.0]).double()],
    ]
    seen = []

    def forward(values):
        seen.append([v.tolist() for v in values])
        x, y = values
        return torch.cat([x * x, x[:1] * y])

    base = forward([p.values for p in points])
    seen.clear()
    ladder = climb(forward, points, base, lines, 2)
    assert len(seen) == 12
    assert seen[0] == [[1.5, 2.25], [3.0]]
    assert seen[1] == [[0.5, 1.75], [3.0]]
    assert seen[5] == [[-1.0, 1.0], [3.0]]
    assert seen[10] == [[5.0, 2.0], [11.0]]
    assert ladder.count == 2
    assert ladder.ratio == 2
    assert [s.tolist() for s in ladder.steps] == [[1.5, 0.25], [2.0]]
    expected = torch.zeros(6, 3, dtype=torch.float64)
    for line in lines:
        for row, m in enumerate((1, -1, 2, -2, 4, -4)):
            expected[row] += forward(move(points, line, m)) - base
    assert torch.equal(ladder.moved, expected)


def test_moving_leaves_the_points_alone():
    point = point_of([1.0, 2.0], torch.float64)
    (moved,) = move([point], [torch.tensor([0.5, 0.0]).double()], -2.0)
    assert moved.tolist() == [0.0, 2.0]
    assert point.values.tolist() == [1.0, 2.0]


def test_reach_is_the_steepest_change_per_step():
    ladder = Ladder([], along(lambda t: t**3, 2).reshape(6, 1), 2)
    assert ladder.reach(slice(0, 1)).tolist() == [16.0]


def test_what_is_not_kept_is_forgotten():
    moved = torch.full((6, 3), math.inf, dtype=torch.float64)
    moved[:, 1] = 7
    ladder = Ladder([], moved, 2)
    ladder.keep(torch.tensor([False, True, False]))
    assert ladder.moved[:, 1].tolist() == [7.0] * 6
    assert ladder.moved[:, ::2].abs().sum() == 0
