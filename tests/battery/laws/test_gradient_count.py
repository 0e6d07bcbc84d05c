"""BP501: one gradient for each input, and None only where it is right."""

import torch

from tests.battery.laws.asking import BROKEN, HELD, asked, function, outcome
from tests.battery.subjects import normal

x, y = normal(7), normal(7, seed=1)


def product(backward):
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    return function(forward, backward)


def test_one_each_holds():
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    assert asked("BP501", product(backward), x, y)[0] is HELD


def test_none_for_an_input_that_matters_is_named():
    found = outcome(
        "BP501", product(lambda ctx, g: (g * ctx.saved_tensors[1], None)), x, y
    )
    assert found.status is BROKEN
    assert "`y` needs a gradient and gets None" in found.words


def test_none_for_an_input_that_does_not_matter_is_right():
    made = function(lambda ctx, x, y: 2 * x, lambda ctx, g: (2 * g, None))
    assert asked("BP501", made, x, y)[0] is HELD
    assert asked("BP501", lambda x, y: x.sin(), x, y)[0] is HELD


def test_none_is_right_for_an_input_that_needs_no_gradient():
    made = product(lambda ctx, g: (g * ctx.saved_tensors[1], None))
    assert asked("BP501", made, x, y.detach())[0] is HELD


def test_too_few_and_too_many_are_the_engines_words():
    too_few = product(lambda ctx, g: g)
    too_many = product(lambda ctx, g: (g, g, g))
    for made in (too_few, too_many):
        status, words = asked("BP501", made, x, y)
        assert status is BROKEN
        assert "incorrect number of gradients" in words


def test_trailing_nones_are_legal():
    made = function(lambda ctx, x: 2 * x, lambda ctx, g: (2 * g, None, None))
    assert asked("BP501", made, x)[0] is HELD


def test_a_backward_of_one_buffer_is_called_as_the_engine_calls_it():
    buffer = torch.empty(7, dtype=torch.float64)

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return torch.mul(g, y, out=buffer), g * x

    assert asked("BP501", product(backward), x, y)[0] is HELD
