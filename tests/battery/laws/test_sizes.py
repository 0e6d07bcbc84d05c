"""BP505: right at every size, not only at the given one."""

import pytest
import torch

from backproof.battery.laws import sizes as law_of_sizes
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

x = normal(4, 6)


def without_the_tail(g, x, block=2):
    gradient = 2 * g * x
    whole = x.shape[0] // block * block
    return torch.cat([gradient[:whole], torch.zeros_like(gradient[whole:])])


def past_a_block(g, x):
    gradient = 2 * g * x
    gradient[1024:] = 0
    return gradient


def swaps_where_square(g, x):
    gradient = 2 * g * x
    return gradient.mT if x.shape[0] == x.shape[1] else gradient


def raises_when_empty(g, x):
    return 2 * g * x / x.abs().max() * x.abs().max()


def raises_for_one(g, x):
    return torch.stack([2 * u * v for u, v in zip(g, x.squeeze(0), strict=True)])


FAULTS = {
    "an odd row is forgotten": (
        saving(torch.square, without_the_tail),
        "at another size (dimension 4 -> 1) the gradient of `inputs[0]` is zero",
    ),
    "past a block": (
        saving(torch.square, past_a_block),
        "(dimension 4 -> 1025), at inputs[0][-1] (the last row), the gradient",
    ),
    "square tiles": (
        saving(torch.square, swaps_where_square),
        "(every dimension -> 4), off the diagonal of inputs[0], the gradient",
    ),
    "empty": (
        saving(torch.square, raises_when_empty),
        "for an empty batch (dimension 4 -> 0) backward raises",
    ),
    "one row": (
        saving(torch.square, raises_for_one),
        "at another size (dimension 4 -> 1) backward raises",
    ),
    "a mean over a number of rows": (
        saving(lambda x: x.mean(0), lambda g, x: (g / 4).expand_as(x)),
        "the gradient of `inputs[0]` is wrong",
    ),
}


@each(FAULTS)
def test_it_is_broken(made):
    target, words = made
    found = outcome("BP505", target, x)
    assert found.status is BROKEN
    broken = [e for e in found.evidence if e.holds is False]
    assert any(words in e.words for e in broken), [e.words for e in broken]
    assert all("->" in e.numbers["size"] for e in broken)


def only_even(x):
    if len(x) % 2:
        raise ValueError("an even number of rows")
    return x.square()


RIGHT = {
    "torch's own": torch.tanh,
    "a mean": lambda x: x.mean(0),
    "a softmax": lambda x: torch.softmax(x, 1),
    "even ones only": saving(only_even, without_the_tail),
    "a norm": lambda x: x.norm(dim=1),
    "a maximum that an empty batch has not": lambda x: x.max(),
}


@each(RIGHT)
def test_it_holds(made):
    found = outcome("BP505", made, x)
    assert found.status is HELD, found.words
    assert "right also at" in found.words


def test_what_could_not_be_made_is_counted_and_said():
    found = outcome("BP505", RIGHT["even ones only"], x)
    (evidence,) = found.evidence
    assert evidence.numbers["refused"] >= 3
    assert f"{evidence.numbers['refused']} could not be made: dimension" in found.words
    assert "an even number of rows" in found.words


def test_lengths_that_something_else_holds_stay():
    def op(x, n):
        return x.reshape(n, -1).sum(1)

    weight = normal(4, grad=False)
    words = asked("BP505", lambda x, n: op(x, n) * 1.0, normal(4, 6), 4)[1]
    assert "right also at" in words
    status, words = asked("BP505", lambda x: x * weight, normal(4))
    assert status is NOT_APPLICABLE


def test_a_gradient_that_is_wrong_anyway_is_not_asked():
    wrong = saving(torch.square, lambda g, x: 3 * g * x)
    status, words = asked("BP505", wrong, x)
    assert status is NOT_APPLICABLE
    assert words == "the gradient is wrong, or a surrogate, at the given size"


def test_a_slow_call_is_left_out(monkeypatch):
    monkeypatch.setitem(law_of_sizes.measure.__globals__, "_SLOW", 0.0)
    status, words = asked("BP505", torch.tanh, x)
    assert status is HELD  # an empty batch costs one call
    assert "(too slow)" in words


def test_a_declared_gradient_is_held_against_the_declaration():
    made = function(
        lambda ctx, x: torch.round(x), lambda ctx, g: without_the_tail(g, g / g / 2)
    )
    assert asked("BP505", made, x, expect_backward=lambda g, x: g)[0] is BROKEN
    right = function(lambda ctx, x: torch.round(x), lambda ctx, g: g)
    assert asked("BP505", right, x, expect_backward=lambda g, x: g)[0] is HELD


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_in_other_types_too(dtype):
    made = saving(torch.square, past_a_block)
    assert asked("BP505", made, normal(6, dtype=dtype))[0] is BROKEN
    assert asked("BP505", torch.square, normal(6, dtype=dtype))[0] is HELD
