"""A number with a bar."""

import math

import pytest

from backproof.probe import Estimate


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        (Estimate(1.0, 0.1), Estimate(1.15, 0.1), True),
        (Estimate(1.0, 0.5), Estimate(2.0, 0.5), True),  # the bars just touch
        (Estimate(1.0, 0.1), Estimate(1.25, 0.1), False),
        (Estimate(1.0, 0.0), Estimate(1.0, 0.0), True),
        (Estimate(0.0, math.inf), Estimate(1e300, 0.0), True),  # it says nothing
        (Estimate(math.nan, 1.0), Estimate(1.0, 1.0), False),
        (Estimate(1.0, math.nan), Estimate(1.0, 1.0), False),
        (Estimate(math.inf, 1.0), Estimate(math.inf, 1.0), False),
    ],
)
def test_two_agree_where_their_bars_touch(one, other, agree):
    assert one.agrees_with(other) is agree
    assert other.agrees_with(one) is agree


def test_text_has_the_digits_that_matter():
    assert str(Estimate(2.814971234, 8.4e-12)) == "2.81497 ± 8e-12"


def test_it_is_a_value():
    assert Estimate(1.0, 0.5) == Estimate(1.0, 0.5, noise=0.0, truncation=0.0)
    with pytest.raises(AttributeError):
        Estimate(1.0, 0.5).value = 2.0
