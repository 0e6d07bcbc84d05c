"""BP502: shape and dtype of what backward returns, before the engine adapts it."""

import pytest
import torch

import backproof
from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    NOT_APPLICABLE,
    asked,
    doubled,
    function,
    outcome,
)
from tests.battery.subjects import normal

x = normal(4, 3)


def test_the_same_form_holds():
    found = outcome("BP502", doubled(lambda ctx, g: 2 * g), x)
    assert found.status is HELD
    assert "float64 (4, 3) for (4, 3)" in found.words


@pytest.mark.parametrize(
    "backward",
    [
        lambda ctx, g: (2 * g).reshape(-1),
        lambda ctx, g: (2 * g).mT,
        lambda ctx, g: 2 * g[:, :2],
        lambda ctx, g: torch.zeros(4, 3, 1, dtype=g.dtype),
    ],
    ids=["flat", "transposed", "cut", "another axis"],
)
def test_another_shape_is_refused_by_the_engine(backward):
    found = outcome("BP502", doubled(backward), x)
    assert found.status is BROKEN
    assert "shape" in found.words
    report = backproof.check(doubled(backward), x)
    assert report.subjects[0].outcome("BP101") is None  # nothing to measure


def test_a_shape_that_sums_to_the_inputs_is_legal():
    made = function(lambda ctx, x, b: x + b, lambda ctx, g: (g, g))
    assert asked("BP502", made, x, normal(3))[0] is HELD


def test_a_coarser_type_is_seen_though_the_engine_casts_it():
    made = doubled(lambda ctx, g: (2 * g).to(torch.float16))
    status, words = asked("BP502", made, normal(9, dtype=torch.float32))
    assert status is BROKEN
    assert "float16" in words
    assert "`x` is float32" in words


def test_a_finer_type_is_legal():
    made = doubled(lambda ctx, g: 2 * g.double())
    assert asked("BP502", made, normal(9, dtype=torch.float32))[0] is HELD


def test_behind_another_operation_it_cannot_be_seen():
    status, words = asked("BP502", torch.sin, x)
    assert status is NOT_APPLICABLE
    assert "adapted" in words
