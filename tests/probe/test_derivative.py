"""Slopes from forward values, each with a bar."""

import math

import numpy as np
import pytest
import torch

from backproof.probe import signs, stream
from tests.probe.climbing import Climbed
from tests.probe.points import DTYPES, IDS

ORDINARY = torch.linspace(0.5, 2.5, 40).tolist()


def one_of(climbed, cotangent=None):
    if cotangent is None:
        cotangent = torch.ones(len(climbed.base))
    return climbed.slopes(cotangent)[0][0]


@pytest.mark.parametrize("dtype", DTYPES, ids=IDS)
def test_a_linear_map_has_its_slope(dtype):
    matrix = torch.linspace(-1, 1, 40 * 5, dtype=torch.float64).reshape(5, 40)
    matrix = matrix.to(dtype).double()
    climbed = Climbed(lambda x: matrix.to(dtype) @ x, ORDINARY, dtype)
    cotangents = [torch.tensor([1.0, -2, 3, 0.5, 1]), torch.ones(5)]
    rows = climbed.slopes(*cotangents)
    assert [len(row) for row in rows] == [2, 2]
    for line, row in enumerate(rows):
        for u, slope in zip(cotangents, row, strict=True):
            truth = float(u.double() @ matrix @ climbed.steps(line))
            assert abs(slope.estimate.value - truth) <= slope.estimate.error
            assert not slope.has_kink


@pytest.mark.parametrize(
    ("forward", "slope"),
    [
        (torch.sin, torch.cos),
        (torch.exp, torch.exp),
        (lambda x: x**7, lambda x: 7 * x**6),
        (torch.log, torch.reciprocal),
        (lambda x: torch.sin(50 * x), lambda x: 50 * torch.cos(50 * x)),
    ],
    ids=["sin", "exp", "x^7", "log", "sin 50x"],
)
def test_smooth_functions_to_ten_digits(forward, slope):
    climbed = Climbed(forward, ORDINARY)
    estimate = one_of(climbed).estimate
    terms = slope(climbed.point.values) * climbed.steps()
    assert abs(estimate.value - float(terms.sum())) <= estimate.error
    assert estimate.error < 1e-8 * float(terms.norm())


def test_the_bar_is_its_two_parts():
    estimate = one_of(Climbed(torch.sin, ORDINARY)).estimate
    assert estimate.error == estimate.noise + estimate.truncation
    assert estimate.noise > 0


def test_a_function_curved_at_the_step_has_a_wide_bar():
    climbed = Climbed(lambda x: torch.sin(1e4 * x), ORDINARY)
    estimate = one_of(climbed).estimate
    terms = 1e4 * torch.cos(1e4 * climbed.point.values) * climbed.steps()
    assert abs(estimate.value - float(terms.sum())) <= estimate.error
    assert estimate.truncation > estimate.noise
    assert estimate.error > 1e-4 * float(terms.norm())


@pytest.mark.parametrize(("shared", "n"), [(False, 40), (True, 1000)])
def test_noise_is_covered_also_where_all_outputs_share_it(shared, n):
    values = torch.linspace(0.5, 2.5, n).tolist()
    inside = 0
    for seed in range(60):
        random = np.random.default_rng(seed)

        def forward(x, random=random):
            noise = random.standard_normal(1 if shared else n)
            return x * x + torch.from_numpy(1e-9 * noise)

        climbed = Climbed(forward, values)
        estimate = one_of(climbed).estimate
        truth = float((2 * climbed.point.values * climbed.steps()).sum())
        inside += abs(estimate.value - truth) <= estimate.error
        together = n if shared else n**0.5
        assert estimate.error < 1e-9 * 5 * 5 * together  # z, and some room
    assert inside >= 58


def test_sums_of_lines_have_the_summed_slope():
    climbed = Climbed(lambda x: x * x, ORDINARY, torch.bfloat16, repeats=8)
    assert climbed.ladders[0].count == 8
    estimate = one_of(climbed).estimate
    truth = float((2 * climbed.point.values * climbed.steps()).sum())
    assert abs(estimate.value - truth) <= estimate.error


def test_repeated_lines_narrow_the_bar():
    def forward(x):
        return x * x

    few = one_of(Climbed(forward, ORDINARY, torch.bfloat16)).estimate
    many = one_of(Climbed(forward, ORDINARY, torch.bfloat16, repeats=8)).estimate
    assert many.error / 8 < 0.6 * few.error


def test_a_kink_is_half_the_gap():
    climbed = Climbed(torch.abs, [0.0, *ORDINARY])
    first = torch.zeros(len(ORDINARY) + 1)
    first[0] = -3.0
    ((kinked, smooth), _) = climbed.slopes(first, 1 - first / -3)
    assert kinked.kink == pytest.approx(-3 * abs(float(climbed.steps()[0])))
    assert abs(smooth.kink) < 1e-6 * abs(kinked.kink)


def test_natural_is_the_slope_of_a_change_by_all_of_it():
    climbed = Climbed(lambda x: x, [2.0] * 100)
    cotangent = signs(stream(0), 100)
    slope = climbed.slopes(cotangent)[0][0]
    expected = math.sqrt(100) * 2 * climbed.precision.step
    assert slope.natural == pytest.approx(expected, rel=0.5)


def test_outputs_that_were_forgotten_do_not_count():
    climbed = Climbed(torch.log, [-1.0, 1.5, 2.0])
    estimate = one_of(climbed).estimate
    moved = climbed.steps()[1:] / climbed.point.values[1:]
    assert abs(estimate.value - float(moved.sum())) <= estimate.error
    assert math.isfinite(estimate.error)
