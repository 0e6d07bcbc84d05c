"""BP101: what is said, beside what is true (the zoo has the convictions)."""

import re

import pytest
import torch

from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    NOT_APPLICABLE,
    asked,
    doubled,
    function,
    outcome,
    staircase,
)
from tests.battery.subjects import normal

x = normal(30)


def test_a_conviction_says_claim_truth_and_ratio():
    status, words = asked("BP101", doubled(lambda ctx, g: 3 * g), x)
    assert status is BROKEN
    title, claim, truth, *_ = words.splitlines()
    assert title == "the gradient of `x` is 3/2 times forward's derivative"
    assert re.fullmatch(r"backward claims +-?[\d.e+-]+ ± [\d.e+-]+", claim)
    assert re.fullmatch(r"forward moves by +-?[\d.e+-]+ ± [\d.e+-]+", truth)
    assert "the same ratio in every direction tried" in words


def test_numbers_are_derivatives_for_a_move_of_all_of_x():
    found = outcome("BP101", doubled(lambda ctx, g: 3 * g), x)
    numbers = found.evidence[0].numbers
    assert numbers["claim"] / numbers["truth"] == pytest.approx(1.5)
    assert numbers["bar"] < 1e-6 * abs(numbers["truth"])
    assert numbers["relative_error"] == pytest.approx(1 / 3, rel=0.2)


def test_a_ratio_is_said_only_where_it_is_the_same_everywhere():
    def one_off(ctx, g):
        gradient = 2 * g
        gradient[3] = 0
        return gradient

    status, words = asked("BP101", doubled(one_off), x)
    assert status is BROKEN
    assert "times the truth" not in words


def test_each_wrong_input_is_accused_by_itself():
    made = function(
        lambda ctx, a, b, c: a + 2 * b + 3 * c,
        lambda ctx, g: (g, 4 * g, 5 * g),
    )
    inputs = (normal(6, seed=k) for k in range(3))
    found = outcome("BP101", made, *inputs)
    assert [e.numbers["input"] for e in found.evidence] == ["b", "c"]
    ratios = [e.numbers["claim"] / e.numbers["truth"] for e in found.evidence]
    assert ratios == pytest.approx([2, 5 / 3])


def test_a_pass_says_its_resolution_and_what_was_set_aside():
    some = torch.tensor([0.0, 1.0, -2.0, 0.5]).double().requires_grad_()
    found = outcome("BP101", torch.relu, some)
    assert found.status is HELD
    numbers = found.evidence[0].numbers
    assert 0 < numbers["resolution"] < 1e-8
    assert numbers["share_set_aside"] == 0.25
    assert numbers["relative_step"] > 0


def test_in_float32_both_stages_are_named():
    status, words = asked("BP101", torch.sin, normal(30, dtype=torch.float32))
    assert status is HELD
    assert "in float64 as well" in words


def test_an_inner_type_is_named():
    def inner(x):
        return x.float().sin().double()

    status, words = asked("BP101", inner, normal(200))
    assert status is HELD
    assert "about the digits of float32" in words


@pytest.mark.parametrize(
    ("target", "options", "code"),
    [
        (staircase(lambda ctx, g: g.clone()), {}, "BP106"),
        (
            staircase(lambda ctx, g: g.clone()),
            {"expect_backward": lambda g, x: g},
            "BP107",
        ),
    ],
    ids=["piecewise constant", "declared"],
)
def test_another_law_is_named_where_it_does_not_apply(target, options, code):
    status, words = asked("BP101", target, x, **options)
    assert status is NOT_APPLICABLE
    assert code in words
