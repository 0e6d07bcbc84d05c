"""BP106: a staircase with a gradient says what the gradient is."""

import pytest
import torch

from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    NOT_APPLICABLE,
    asked,
    function,
    outcome,
    staircase,
)
from tests.battery.subjects import normal

STAIRS = {
    "round": torch.round,
    "sign": torch.sign,
    "threshold": lambda x: (x > 0.3).to(x.dtype),
    "quantised": lambda x: torch.round(8 * x) / 8,
    "one-hot": lambda x: torch.nn.functional.one_hot(x.argmax(), 40).to(x.dtype),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("step", STAIRS.values(), ids=STAIRS)
def test_a_straight_through_estimator_is_a_surrogate(step, dtype):
    made = function(lambda ctx, x: step(x), lambda ctx, g: g.clone())
    found = outcome("BP106", made, normal(40, dtype=dtype))
    assert found.status is BROKEN
    assert "piecewise constant" in found.words
    assert "EXPECT" in found.evidence[0].remedy
    assert "expect=" in found.evidence[0].remedy


@pytest.mark.parametrize("step", list(STAIRS.values())[:4], ids=list(STAIRS)[:4])
def test_a_zero_gradient_is_right(step):
    made = function(lambda ctx, x: step(x), lambda ctx, g: torch.zeros_like(g))
    assert asked("BP106", made, normal(40))[0] is NOT_APPLICABLE
    assert outcome("BP101", made, normal(40)).status is HELD


def test_a_declaration_settles_it():
    made = staircase(lambda ctx, g: g.clone())
    status, words = asked("BP106", made, normal(40), expect_backward=lambda g, x: g)
    assert status is NOT_APPLICABLE
    assert "BP107" in words


def test_a_flat_but_smooth_function_is_no_staircase():
    x = normal(40)
    assert asked("BP106", lambda x: 1000 + 1e-6 * x, x)[0] is NOT_APPLICABLE
    assert asked("BP106", lambda x: 0.5 * x, x)[0] is NOT_APPLICABLE
