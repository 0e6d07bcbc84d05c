import math

import pytest
import torch

from backproof.battery.survey.known import Known, difference, rounding, stacked


def known(value, *, movement=0.0, **options):
    dtype = torch.float64 if value is None else value.dtype
    return Known(value, dtype, 100, lambda: movement, **options)


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_equal_numbers_agree():
    assert not difference(double(1, 2), known(double(1, 2))).words


def test_rounding_agrees_and_more_does_not():
    eps = torch.finfo(torch.float64).eps
    right = double(1, 2)
    assert not difference(right * (1 + 100 * eps), known(right)).words
    assert difference(right * (1 + 1e5 * eps), known(right)).words


def test_the_bar_is_beside_the_tensors_scale():
    right = double(1e6, 1e-6)
    assert not difference(right + double(0, 1e-9), known(right)).words


def test_what_moves_by_rounding_widens_the_bar():
    right = double(1.0)
    off = double(1.0 + 1e-9)
    assert difference(off, known(right)).words
    assert not difference(off, known(right, movement=1e-9)).words


def test_movement_is_measured_only_where_it_matters():
    def never():
        raise AssertionError

    same = Known(double(1.0), torch.float64, 1, never)
    assert not difference(double(1.0), same).words


def test_a_given_scale_or_bar_counts():
    right = double(1e-12)
    assert difference(double(2e-12), known(right)).words
    assert not difference(double(2e-12), known(right, scale=10.0)).words
    assert not difference(double(2e-12), known(right, bar=1e-11)).words


@pytest.mark.parametrize(
    ("got", "part"),
    [
        (None, "is missing"),
        (double(1), "shape"),
        (torch.ones(2), "torch.float32 instead of torch.float64"),
        (double(0, 0), "all zero"),
        (double(1, math.nan), "holds nan or inf"),
        (double(1, 3), "off by 1 of 2"),
    ],
)
def test_the_words_say_what_is_wrong(got, part):
    assert part in difference(got, known(double(1, 2))).words


def test_nothing_and_zeros_are_the_same_gradient():
    assert not difference(None, known(double(0, 0))).words
    assert not difference(double(0, 0), known(None)).words
    assert not difference(None, known(None)).words
    assert difference(double(0, 1), known(None)).words


def test_nan_agrees_with_nan():
    assert not difference(double(math.nan, 1), known(double(math.nan, 1))).words


def test_16_bits_have_a_bar_of_their_own():
    assert rounding(torch.bfloat16, 10**6) == 4 * 2.0**-7
    assert rounding(torch.float32, 1) == 64 * 2.0**-23
    assert rounding(torch.complex64, 1) == rounding(torch.float32, 1)


def test_stacked_keeps_the_widest():
    both = stacked([known(double(1), movement=1.0), known(double(2), movement=3.0)])
    assert torch.equal(both.value, double(1, 2)[:, None])
    assert both.movement() == 3.0
    assert stacked([known(double(1)), known(None)]).value is None
