"""BP202: backward writes neither to its cotangents nor to what was saved."""

import torch

from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    NOT_APPLICABLE,
    asked,
    doubled,
    each,
    function,
    outcome,
    saving,
)
from tests.battery.subjects import normal

x = normal(6)

scribbling = doubled(lambda ctx, g: g.mul_(2))


def in_the_middle(x):
    return scribbling.apply(x.sin()).cos()


def by_a_hook(x):
    y = x.sin()
    y.register_hook(lambda g: g.mul_(2))
    return y


FAULTS = {
    "the cotangent": (scribbling, "the cotangent"),
    "through .data": (doubled(lambda ctx, g: 2 * g.data.mul_(-1).neg()), "cotangent"),
    "through NumPy": (
        doubled(lambda ctx, g: torch.from_numpy(g.numpy().__imul__(2))),
        "the cotangent",
    ),
    "a saved tensor": (
        saving(lambda x: x * x, lambda g, x: g * x.mul_(2)),
        "the saved tensor `inputs[0]` in place (mul_)",
    ),
    "by a hook": (by_a_hook, "the cotangent"),
    "inside of the subject": (in_the_middle, "the cotangent"),
    "one of two": (
        function(lambda ctx, x: (2 * x, 3 * x), lambda ctx, g, h: 2 * g + h.mul_(3)),
        "the cotangent `h` in place (mul_)",
    ),
}


@each(FAULTS)
def test_it_is_broken(made):
    target, first_line = made
    status, words = asked("BP202", target, x)
    assert status is BROKEN
    assert first_line in words.splitlines()[0]
    assert "6 of 6 elements are changed" in words


def puts_back(g, x):
    gradient = g.mul_(2).mul(x)
    g.div_(2)
    return gradient


RIGHT = {
    "a copy": doubled(lambda ctx, g: g.clone().mul_(2)),
    "what it made itself": doubled(lambda ctx, g: (2 * g).add_(0)),
    "put back": saving(lambda x: x * x, puts_back),
    "the cotangent itself": function(lambda ctx, x: x + 1, lambda ctx, g: g),
    "torch's own": torch.sin,
}


@each(RIGHT)
def test_it_holds(made):
    found = outcome("BP202", made, x)
    assert found.status is HELD
    assert "as they were" in found.words


def test_it_has_nothing_to_say_where_backward_raises():
    made = doubled(lambda ctx, g: 1 / 0)
    assert asked("BP202", made, x) == (NOT_APPLICABLE, "backward raised")
