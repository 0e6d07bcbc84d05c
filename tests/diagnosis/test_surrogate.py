"""The shape of a surrogate's slope: numbers, jumps, families, and what is asked for."""

import math
import random

import pytest
import torch

from backproof.diagnosis.surrogate import CALLS, shape_of
from backproof.diagnosis.surrogate.families import FAMILIES
from backproof.diagnosis.surrogate.plain_number import (
    exact,
    plain_numbers,
    shortest_between,
)
from backproof.probe import Domain
from backproof.subject import Case, subject_of
from backproof.trial import Trial
from tests.battery.laws.asking import function
from tests.battery.subjects import normal


def found(slope, x, **options):
    """What is found of a spike with this slope, and the calls that it took."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    made = function(forward, lambda ctx, g: g * slope(ctx.saved_tensors[0]))
    trial = Trial(subject_of(made), Case((x,)))
    trial.record()
    one = shape_of(trial, 0, {"x": "x"}, **options)
    return one, trial.calls.backward


# ----------------------------------------------------------------------------- numbers

CONSTANTS = {
    "0.3": 0.3,
    "-25": -25.0,
    "1 / 3": 1 / 3,
    "10 / 7": 10 / 7,
    "torch.pi": math.pi,
    "0.75 * torch.pi": 0.75 * math.pi,
    "2 / torch.pi**0.5": 2 / math.sqrt(math.pi),
    "1 / (2 * torch.pi) ** 0.5": 1 / math.sqrt(2 * math.pi),
}


@pytest.mark.parametrize(("text", "value"), CONSTANTS.items())
def test_a_number_is_written_as_people_write_it(text, value):
    number = next(plain_numbers(value, 1e-9 * abs(value)))
    assert number.text == text
    assert eval(number.text, {"torch": torch}) == pytest.approx(value, rel=1e-12)
    assert number.value == pytest.approx(value, rel=1e-12)


def test_a_number_without_a_name_keeps_its_digits():
    value = 1.2345678901
    (number,) = plain_numbers(value, 1e-12)
    assert number.value == value
    assert float(number.text) == value


@pytest.mark.parametrize(
    ("low", "high", "between"),
    [
        (0.8, 1.3, 1.0),
        (-0.2, 0.1, 0.0),
        (0.3333, 0.33336, 1 / 3),
        (-1.0, -0.99, -0.995),
    ],
)
def test_the_plainest_number_between(low, high, between):
    assert low < between < high
    assert shortest_between(low, high) == pytest.approx(between)


def test_a_hint_comes_first():
    assert shortest_between(0.8, 1.3, hints=[5.0, 1.27]) == 1.27


def test_a_whole_number_has_no_point():
    assert exact(2.0).text == "2"
    assert (-exact(2.0)).text == "-2"
    assert (-exact(-0.5)).text == "0.5"


# ---------------------------------------------------------------------------- families


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_any_slope_threshold_and_factor_is_found_again(family, dtype):
    numbers = random.Random(family.name)
    digits = 1e-9 if dtype is torch.float64 else 2e-5
    for seed in range(4):
        k = math.exp(numbers.uniform(-1.5, 3))
        t = numbers.choice([0.0, numbers.uniform(-1, 1)])
        c = math.exp(numbers.uniform(-2, 3))
        x = normal(40, dtype=dtype, seed=seed)
        one, _ = found(lambda x, k=k, t=t, c=c: c * family.profile(k * (x - t)), x)
        assert one.shape is not None
        assert one.shape.name == family.name
        assert one.shape.numbers["slope"] == pytest.approx(k, rel=10 * digits)
        assert one.shape.numbers["threshold"] == pytest.approx(t, abs=10 * digits)
        assert one.shape.numbers["factor"] == pytest.approx(c, rel=10 * digits)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("off", [1e-4, 1e-2])
def test_what_is_off_a_little_has_no_name(family, off):
    def slope(x):
        return family.profile(2 * x) * (1 + off * torch.sin(3 * x))

    one, _ = found(slope, normal(40, dtype=torch.float32))
    assert one.shape is None


# ------------------------------------------------------------------------------- jumps


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("bound", [1.0, 0.1, 1 / 3, 0.7310585786])
@pytest.mark.parametrize("closed", [True, False])
def test_a_bound_is_located_to_the_last_place(dtype, bound, closed):
    def slope(x):
        edge = torch.tensor(bound, dtype=x.dtype)
        return (x <= edge) if closed else (x < edge)

    one, _ = found(slope, normal(40, dtype=dtype))
    assert one.shape is not None
    there = torch.tensor(bound, dtype=dtype)
    x = torch.stack(
        [torch.nextafter(there, there - 1), there, torch.nextafter(there, 2 * there)]
    )
    gradient = eval(one.shape.gradients[0], {"g": torch.ones_like(x), "x": x})
    assert gradient.tolist() == [1, int(closed), 0]


def test_a_narrow_bump_that_the_case_has_is_seen():
    x = torch.linspace(-3, 3, 401, dtype=torch.float64)
    at = float(x[237])
    one, _ = found(lambda x: (x - at).abs() < 0.004, x.requires_grad_())
    assert one.shape is not None
    assert one.shape.numbers["low"] == pytest.approx(at - 0.004)
    assert one.shape.numbers["high"] == pytest.approx(at + 0.004)


# ------------------------------------------------------------------------------- manners


@pytest.mark.parametrize("size", [1, 2, 40])
@pytest.mark.parametrize("calls", [20, CALLS])
def test_it_keeps_within_its_calls(size, calls):
    for slope in (lambda x: x.abs() < 1 / 3, lambda x: 1 / (1 + x**4)):
        _, taken = found(slope, normal(size), calls=calls)
        assert 0 < taken <= calls + 5


def test_points_that_are_not_finite_are_told():
    one, _ = found(lambda x: torch.exp(2 * x) / torch.exp(x) ** 2, normal(40))
    assert one.infinite
    assert all(abs(value) > 100 for value in one.infinite)


def test_a_complex_input_is_left():
    def forward(ctx, x):
        return torch.complex(x.real.round(), x.imag.round())

    made = function(forward, lambda ctx, g: g)
    x = normal(4, grad=False).to(torch.complex128).requires_grad_()
    trial = Trial(subject_of(made), Case((x,)))
    trial.record()
    assert "complex" in shape_of(trial, 0, {"x": "x"}).why


def test_an_input_with_a_domain_is_not_moved():
    made = function(lambda ctx, x: x.round(), lambda ctx, g: g)
    case = Case((normal(8),), domains={"x": Domain(0.0, 4.0)})
    trial = Trial(subject_of(made), case)
    trial.record()
    assert "bounded" in shape_of(trial, 0, {"x": "x"}).why
