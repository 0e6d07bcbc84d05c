"""BP104: what is said, and how far a conviction reaches."""

import pytest
import torch

from tests.battery.laws.asking import BROKEN, HELD, asked, doubled, function, outcome
from tests.battery.subjects import normal

x = normal(30)


def two(backward):
    return function(lambda ctx, x: (2 * x, 3 * x), backward)


def test_it_holds_exactly_for_a_linear_backward():
    found = outcome("BP104", doubled(lambda ctx, g: 2 * g), x)
    assert found.status is HELD
    assert all(e.numbers["departure"] <= 1e-14 for e in found.evidence)


def test_a_conviction_says_for_which_cotangent_and_how_far():
    found = outcome("BP104", doubled(lambda ctx, g: 2 * g.abs()), x)
    assert found.status is BROKEN
    assert "not linear in its cotangent" in found.words
    assert "opposite sign" in found.words
    assert found.evidence[0].numbers["departure"] > 0.5


def test_it_is_broken_also_where_the_sum_alone_shows_it():
    made = doubled(lambda ctx, g: 2 * g.sign() * g.norm() / 30**0.5)
    found = outcome("BP104", made, x)
    assert [e.holds for e in found.evidence] == [True, False]
    assert "sum of two cotangents" in found.words


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("size", [1e-2, 1.0])
def test_a_small_departure_is_seen(dtype, size):
    made = doubled(lambda ctx, g: 2 * g + size * g * g)
    assert asked("BP104", made, normal(30, dtype=dtype))[0] is BROKEN


def test_a_cotangent_that_counts_only_beside_another_is_found():
    def backward(ctx, g, h):
        return 2 * g + (3 * h if bool(g.any()) else 0 * h)

    status, words = asked("BP104", two(backward), x)
    assert status is BROKEN
    assert "do not add up" in words


def test_single_outputs_are_tried_when_there_are_several():
    right = outcome("BP104", two(lambda ctx, g, h: 2 * g + 3 * h), x)
    alone = outcome("BP104", doubled(lambda ctx, g: 2 * g), x)
    assert (len(right.evidence), len(alone.evidence)) == (3, 2)
