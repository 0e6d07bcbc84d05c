"""BP209: inputs that are equal, or one tensor, keep their gradients."""

import torch

from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    NOT_APPLICABLE,
    asked,
    each,
    function,
    outcome,
    saving,
)
from tests.battery.subjects import normal

x, y = normal(6), normal(6, seed=1)


def product(backward):
    return saving(lambda x, y: x * y, backward)


def by_a_ratio(g, x, y):
    """y is y (x - y) / (x - y), and zero over zero is taken for zero."""
    return g * (y * (x - y) / (x - y)).nan_to_num(), g * x


def one_of_equals(g, x, y):
    return g * y, torch.where(x == y, 0.0, g * x)


def one_of_a_tensor(g, x, y):
    return g * y, None if x.data_ptr() == y.data_ptr() else g * x


def raises_for_equals(g, x, y):
    if torch.equal(x, y):
        raise ZeroDivisionError("equal")
    return g * y, g * x


FAULTS = {
    "one of two equals": (
        product(one_of_equals),
        "the gradient of `inputs[1]` is",
    ),
    "a ratio of differences": (
        product(by_a_ratio),
        "the gradient of `inputs[0]`",
    ),
    "it raises": (product(raises_for_equals), "are equal, backward raises"),
    "one tensor": (product(one_of_a_tensor), "does not get the sum of both gradients"),
}


@each(FAULTS)
def test_it_is_broken(made):
    target, first_line = made
    status, words = asked("BP209", target, x, y)
    assert status is BROKEN
    assert first_line in words


RIGHT = {
    "a product": product(lambda g, x, y: (g * y, g * x)),
    "a maximum": torch.maximum,
    "a distance": lambda x, y: (x - y).abs().sum(),
    "an angle": torch.atan2,
    "bounds that meet": lambda x, y: normal(6, seed=3, grad=False).clamp(x, y),
    "one of a kind": lambda x, y: torch.stack([x, y]).sort(0).values,
}


@each(RIGHT)
def test_it_holds(made):
    status, words = asked("BP209", made, x, y)
    assert status is HELD, words


def test_three_inputs_are_three_pairs():
    found = outcome("BP209", lambda a, b, c: a * b + c, x, y, normal(6, seed=2))
    pairs = [tuple(e.numbers["inputs"]) for e in found.evidence]
    assert pairs == [("a", "b"), ("a", "c"), ("b", "c")]


NOT = {
    "other shapes": (x, normal(1)),
    "other types": (x, normal(6, dtype=torch.float32)),
    "one input": (x, normal(6, grad=False)),
}


@each(NOT)
def test_inputs_that_cannot_be_one_tensor_are_no_pair(made):
    status, words = asked("BP209", torch.mul, *made)
    assert status is NOT_APPLICABLE
    assert words == "no two inputs have the same shape and type"


def test_a_gradient_that_is_wrong_anyway_is_not_asked():
    wrong = product(lambda g, x, y: (2 * g * y, g * x))
    status, words = asked("BP209", wrong, x, y)
    assert status is NOT_APPLICABLE
    assert "as it is" in words


def test_it_is_the_callers_tensors_that_stay_two():
    seen = []
    made = function(
        lambda ctx, x, y: (seen.append(x is y), x + y)[1], lambda ctx, g: (g, g)
    )
    assert asked("BP209", made, x, y)[0] is HELD
    assert sum(seen) == 1
    assert not torch.equal(x, y)
