"""Cotangents, and inner products over several inputs."""

import math

import pytest
import torch

from backproof.probe import signs, stream
from backproof.trial.vectors import (
    along,
    balanced,
    inner,
    minus,
    norm,
    overlap,
)


def vector(*parts):
    return [None if p is None else torch.tensor(p, dtype=torch.float64) for p in parts]


A = vector([1.0, -2.0], None, [3.0])
B = vector([4.0, 1.0], [9.0], [2.0])


def test_products_are_summed_over_all_inputs():
    assert inner(A, B) == 4 - 2 + 6
    assert overlap(A, B) == math.sqrt(16 + 4 + 36)
    assert along(A, B) == (inner(A, B), overlap(A, B))
    assert norm(A) == math.sqrt(14)


def test_products_of_long_vectors_are_whole():
    x = torch.linspace(-1, 2, 20_000, dtype=torch.float64)
    total, size = along([x], [x])
    assert total == pytest.approx(float(x @ x))
    assert size == pytest.approx(float((x * x).norm()))


def test_differences_take_none_for_zero():
    difference = minus(A, B)
    assert [d.tolist() for d in difference] == [[-3.0, -3.0], [-9.0], [1.0]]
    assert minus(vector(None), vector(None)) == [None]
    assert minus(vector([1.0]), vector(None))[0].tolist() == [1.0]


def test_what_is_not_finite_is_no_difference():
    infinite, finite = vector([math.nan, math.inf, 1.0]), vector([0.0, 0.0, 0.0])
    assert minus(infinite, finite)[0].tolist() == [0.0, 0.0, 1.0]


def drawn(weights, mask=None, *, widest=1e12, size=None):
    weights = torch.tensor(weights, dtype=torch.float64)
    mask = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask
    sign = signs(stream(1), weights.numel())
    return balanced(weights, mask, sign, stream(2), widest=widest), weights, sign


def test_each_output_has_the_same_say():
    cotangent, weights, sign = drawn([10.0**k for k in range(-4, 5)])
    say = cotangent * weights
    middle = float(say.abs().median())
    assert bool((say.abs() >= 0.4 * middle).all())
    assert bool((say.abs() <= 2.4 * middle).all())
    assert torch.equal(cotangent.sign(), sign)


def test_float16_stays_in_range():
    cotangent, *_ = drawn([1e-6, 1.0, 1e6], widest=8.0)
    assert float(cotangent.abs().max()) <= 8 * 1.4
    assert float(cotangent.abs().min()) >= 0.6 / 8


def test_what_is_masked_gets_nothing():
    mask = torch.tensor([True, False, True])
    cotangent, *_ = drawn([1.0, 1.0, 1.0], mask)
    assert (cotangent != 0).tolist() == mask.tolist()
