"""BP110: digits that the type could hold and backward does not."""

import pytest
import torch

from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    NOT_APPLICABLE,
    asked,
    doubled,
    outcome,
)
from tests.battery.subjects import normal

COARSER = {torch.float64: torch.float32, torch.float32: torch.float16}
each_type = pytest.mark.parametrize(("dtype", "coarse"), COARSER.items(), ids=str)


@each_type
def test_a_cast_in_backward_is_seen_and_the_formula_is_not_blamed(dtype, coarse):
    made = doubled(lambda ctx, g: (2 * g.to(COARSER[g.dtype])).to(g.dtype))
    y = normal(60, dtype=dtype)
    status, words = asked("BP110", made, y)
    assert status is BROKEN
    assert "digits" in words or "coarser type" in words
    assert outcome("BP101", made, y).status is HELD


@each_type
def test_full_digits_hold(dtype, coarse):
    found = outcome("BP110", torch.sin, normal(60, dtype=dtype))
    assert found.status is HELD
    assert found.evidence[0].numbers["rounding"] <= 4 * torch.finfo(dtype).eps


@each_type
def test_digits_that_forward_does_not_have_either_are_not_asked_for(dtype, coarse):
    def forward(x):
        return x.to(coarse).sin().to(dtype)

    assert asked("BP110", forward, normal(300, dtype=dtype))[0] is not BROKEN


def test_a_float32_fault_that_float64_has_not_is_said_to_be_one():
    def backward(ctx, g):
        if g.dtype == torch.float32:
            return 2.01 * g  # a constant that is worse in this type
        return 2 * g

    y = normal(60, dtype=torch.float32)
    found = outcome("BP110", doubled(backward), y)
    assert found.status is BROKEN
    assert "in float64 it is right" in found.words
    assert outcome("BP101", doubled(backward), y).status is HELD


def test_where_the_gradient_is_wrong_its_digits_do_not_matter():
    status, words = asked("BP110", doubled(lambda ctx, g: 3 * g), normal(9))
    assert status is NOT_APPLICABLE
    assert "BP101" in words
