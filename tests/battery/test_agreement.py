"""Two runs agree up to a few roundings, or up to what an input's last digit does."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backproof.battery.agreement import Yardstick
from backproof.subject import Case, subject_of
from backproof.trial import Trial
from tests.battery.subjects import normal

FLOATS = (torch.float64, torch.float32, torch.bfloat16)
each_type = pytest.mark.parametrize("dtype", FLOATS, ids=str)


def yardstick(target, *arguments):
    """That of a call for a cotangent of ones, with its values and gradient."""
    trial = Trial(subject_of(target), Case(arguments))
    graph = trial.record()
    cotangent = torch.ones_like(graph.values)
    gradient = [g.clone() for g in trial.pull(graph, cotangent)]
    return Yardstick(trial, cotangent), graph.values, gradient


def wave(x):
    return x.sin() * x


def steep(x):
    return (1e4 * x).sin()


@each_type
def test_the_same_is_the_same(dtype):
    ruler, values, gradient = yardstick(wave, normal(30, dtype=dtype))
    for found in (ruler.values(values, values), ruler.gradients(gradient, gradient)):
        assert not found.is_real
        assert found.share == 0


@each_type
@pytest.mark.parametrize("roundings", [1, 6])
def test_a_few_roundings_are_allowed(dtype, roundings):
    ruler, values, gradient = yardstick(wave, normal(30, dtype=dtype))
    eps = torch.finfo(dtype).eps
    moved = values * (1 + roundings * eps)
    assert not ruler.values(moved, values, sensitive=False).is_real
    off = [g * (1 + roundings * eps) for g in gradient]
    assert not ruler.gradients(off, gradient, sensitive=False).is_real


@each_type
def test_more_is_not_in_any_single_element(dtype):
    ruler, values, gradient = yardstick(wave, normal(30, dtype=dtype))
    off = [gradient[0].clone()]
    off[0][7] += 1e4 * torch.finfo(dtype).eps * off[0].abs().max() + 0.3
    found = ruler.gradients(off, gradient)
    assert found.is_real
    assert (found.name, found.at, found.count, found.total) == ("x", 7, 1, 30)
    assert found.got == float(off[0][7])
    assert found.expected == float(gradient[0][7])
    assert ruler.values(values + 0.5, values).is_real


def test_what_an_inputs_last_digit_does_is_measured_and_allowed():
    ruler, values, _ = yardstick(steep, normal(30, dtype=torch.float32))
    off = values + 1e-3
    assert not ruler.values(off, values).is_real
    assert ruler.values(off, values, sensitive=False).is_real
    assert ruler.values(values + 0.5, values).is_real


def test_of_one_graph_sensitivity_is_no_excuse():
    ruler, _, gradient = yardstick(steep, normal(30, dtype=torch.float32))
    off = [g * (1 + 1e-3) for g in gradient]
    assert not ruler.gradients(off, gradient).is_real
    assert ruler.gradients(off, gradient, sensitive=False).is_real


class TestNone:
    def test_counts_as_zero(self):
        ruler, _, gradient = yardstick(wave, normal(5))
        assert ruler.gradients([None], gradient).is_real
        assert ruler.gradients(gradient, [None]).is_real
        assert not ruler.gradients([None], [None]).is_real
        zero = [torch.zeros(5, dtype=torch.float64)]
        assert not ruler.gradients([None], zero).is_real
        assert not ruler.gradients(zero, [None]).is_real

    def test_a_gradient_that_should_be_zero_has_a_unit_of_its_own(self):
        ruler, _, _ = yardstick(wave, normal(5))
        zero = torch.zeros(5, dtype=torch.float64)
        assert not ruler.gradients([zero + 1e-18], [zero]).is_real
        assert ruler.gradients([zero + 1e-3], [zero]).is_real


class TestNotFinite:
    def test_the_same_nan_and_inf_are_the_same(self):
        ruler, values, _ = yardstick(wave, normal(5))
        values[1], values[3] = math.nan, -math.inf
        assert not ruler.values(values.clone(), values).is_real

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_one_that_is_not_is_another(self, value):
        ruler, values, _ = yardstick(wave, normal(5))
        off = values.clone()
        off[2] = value
        assert ruler.values(off, values).is_real
        assert ruler.values(values, off).is_real

    def test_inf_of_another_sign_is_another(self):
        ruler, values, _ = yardstick(wave, normal(5))
        values[2] = math.inf
        off = values.clone()
        off[2] = -math.inf
        assert ruler.values(off, values).is_real


def test_another_length_is_another_gradient():
    ruler, _, gradient = yardstick(wave, normal(5))
    found = ruler.gradients([torch.ones(4).double()], gradient)
    assert found.is_real
    assert found.share == math.inf


def test_the_worst_of_several_is_named():
    def op(a, b):
        return a.sin() + b.cos()

    ruler, _, gradient = yardstick(op, normal(5), normal(5, seed=1))
    off = [gradient[0] * 1.001, gradient[1] * 1.1]
    assert ruler.gradients(off, gradient).name == "b"
    assert ruler.gradients(off[:1], gradient[:1], ["a"]).name == "a"


def test_outputs_are_named_too():
    ruler, values, _ = yardstick(lambda x: (x.sin(), x.cos()), normal(5))
    off = values.clone()
    off[6] += 1e-3
    found = ruler.values(off, values)
    assert (found.name, found.at) == ("output[1]", 1)


def test_words_and_numbers_say_the_same():
    ruler, _, gradient = yardstick(wave, normal(5))
    off = [gradient[0].clone()]
    off[0][2] = 4.0
    found = ruler.gradients(off, gradient)
    assert "4 instead of" in found.words
    assert "at x[2]; 1 of 5 elements differs" in found.words
    assert set(found.numbers) == {
        "name",
        "departure",
        "allowed",
        "got",
        "expected",
        "elements_wrong",
        "elements",
    }


def test_sensitivity_is_measured_once_and_only_when_it_is_needed():
    calls = []

    def counted(x):
        calls.append(x)
        return x.sin()

    ruler, values, gradient = yardstick(counted, normal(5))
    before = len(calls)
    ruler.values(values * (1 + 1e-16), values)
    assert len(calls) == before
    ruler.values(values + 1, values)
    ruler.gradients([g + 1 for g in gradient], gradient)
    assert len(calls) == before + 2


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=3, max_size=3),
    st.floats(1e-6, 1e6),
)
def test_it_does_not_depend_on_the_unit(numbers, unit):
    ruler, _, _ = yardstick(wave, normal(3))
    one = torch.tensor(numbers, dtype=torch.float64)
    other = one + torch.tensor([0.0, 1.0, 0.0]) * one.abs().max()
    found = ruler.gradients([other], [one], sensitive=False)
    scaled = ruler.gradients([other * unit], [one * unit], sensitive=False)
    assert found.is_real == scaled.is_real == bool(one.any())
    if one.any():
        assert found.share == pytest.approx(scaled.share, rel=1e-6)


def halves(x, at):
    off = x.clone()
    off.view(-1)[at] = 0
    return off


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (slice(None), "all 12 elements differ"),
        (slice(4, 12), "8 of 12 elements differ: x[1:] (rows after the first)"),
        ([2, 5, 6], "3 of 12 elements differ: x[0, 2], x[1, 1], x[1, 2]"),
    ],
)
def test_the_elements_are_named(at, words):
    ruler, _, (gradient,) = yardstick(wave, normal(3, 4))
    found = ruler.gradients([halves(gradient, at)], [gradient])
    assert found.words.split("; ")[1] == words
    assert found.becomes == "is zero"


def test_a_condition_on_values_needs_several_elements_on_either_side():
    x = normal(12)
    ruler, _, (gradient,) = yardstick(wave, x)
    found = ruler.gradients([halves(gradient, x < 0)], [gradient])
    assert found.extent.endswith("elements differ: where x <= 0")
    found = ruler.gradients([halves(gradient, x < x.sort().values[2])], [gradient])
    assert found.extent == "2 of 12 elements differ"


def test_complex_elements_are_named_whole():
    z = normal(3, dtype=torch.complex128)
    ruler, _, (gradient,) = yardstick(lambda z: z * z, z)
    off = gradient.clone()
    off[5] += 1.0
    found = ruler.gradients([off], [gradient])
    assert found.element == "z[2]"
    assert found.extent == "1 of 3 elements differs"
