"""Which elements are wrong, and at what cost."""

import math

import pytest
import torch

from tests.diagnosis.asking import named, normal, numbers


def separable(spoil):
    """Each output hangs on one element."""
    return named(torch.sin, lambda g, x, y: spoil(g * x.cos(), x))


def by_rows(spoil):
    """Each row of outputs hangs on one row."""

    def backward(g, x, y):
        return spoil(y * (g - (g * y).sum(-1, keepdim=True)), x)

    return named(lambda x: torch.softmax(x, -1), backward)


def entangled(spoil):
    """One output hangs on everything."""
    return named(
        lambda x: x.sin().sum().exp(), lambda g, x, y: spoil(g * y * x.cos(), x)
    )


def zeroed(*where):
    def spoil(gradient, x):
        gradient = gradient.clone()
        gradient[where] = 0
        return gradient

    return spoil


def where(condition):
    return lambda gradient, x: torch.where(condition(x), 2 * gradient, gradient)


EVERY = slice(None)
REGIONS = [
    (zeroed(2, 3), "x[2, 3]"),
    (zeroed(EVERY, slice(4, None)), "x[:, 4:]"),
    (zeroed(-1), "x[-1]"),
    (zeroed(slice(1, None)), "x[1:]"),
    (zeroed(EVERY, slice(1, None, 2)), "x[:, 1::2]"),
    (zeroed(slice(1, 4), slice(0, 3)), "x[1:4, :3]"),
    (where(lambda x: x <= 0), "x <= 0"),
    (where(lambda x: x > 1), "x > 1"),
]


@pytest.mark.parametrize(("spoil", "expression"), REGIONS)
@pytest.mark.parametrize("kind", [separable, by_rows, entangled])
def test_the_region_is_named(kind, spoil, expression):
    found = numbers(kind(spoil), normal(6, 8, seed=3))
    assert found["region_expression"] == expression


@pytest.mark.parametrize("kind", [separable, entangled])
@pytest.mark.parametrize("at", [0, 31_415, 49_999])
def test_a_single_element_among_many_is_found_by_halving(kind, at):
    size = 50_000
    found = numbers(kind(zeroed(at)), 0.01 * normal(size).detach().requires_grad_())
    assert (
        eval(found["region_expression"].replace("x", "index"), {"index": Index(size)})
        == at
    )
    assert found["diagnosis_forwards"] <= 2 * math.log2(size) + 10


class Index:
    """What an index of a vector of this size means."""

    def __init__(self, size):
        self.size = size

    def __getitem__(self, at):
        return at % self.size


def test_a_budget_that_ends_leaves_the_verdict():
    from backproof.battery import diagnosing

    before = diagnosing._LEAST
    diagnosing._LEAST = 0
    try:
        found = numbers(entangled(zeroed(EVERY, slice(4, None))), normal(6, 8))
    finally:
        diagnosing._LEAST = before
    assert found["claim"] != pytest.approx(found["truth"])


def test_at_most_as_many_forwards_as_the_check():
    for kind in (separable, by_rows, entangled):
        for spoil, _ in REGIONS:
            found = numbers(kind(spoil), normal(6, 8, seed=5))
            assert found["diagnosis_forwards"] <= 100
