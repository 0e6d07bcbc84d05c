"""BP107: backward is what was declared, element by element, and not only here."""

import pytest
import torch

from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    NOT_APPLICABLE,
    asked,
    outcome,
    staircase,
)
from tests.battery.subjects import normal

x = normal(40)


def window(cotangent, x):
    return cotangent * (x.abs() <= 1)


def backward(ctx, g):
    return window(g, ctx.saved_tensors[0])


def test_it_looks_at_ties_bounds_and_extremes_too():
    found = outcome("BP107", staircase(backward), x, expect_backward=window)
    assert found.status is HELD
    words = " ".join(e.words for e in found.evidence)
    for place in ("the given inputs", "ties", "bounds", "extremes", "one sign"):
        assert place in words


def test_a_conviction_says_where_and_how_many():
    def wrong(ctx, g):
        gradient = backward(ctx, g)
        gradient[5] *= 2 if bool(gradient[5]) else 0
        gradient[5] += 1
        return gradient

    found = outcome("BP107", staircase(wrong), x, expect_backward=window)
    assert found.status is BROKEN
    assert "[5], where" in found.words
    assert "1 of 40 elements differ" in found.words
    assert f"{x[5].item():.6g}" in found.words
    numbers = found.evidence[0].numbers
    assert numbers["elements_wrong"] == 1
    assert numbers["claim"] != numbers["declared"]


def test_a_number_among_the_arguments_is_a_bound_to_look_at():
    def declared(cotangent, x, edge):
        return cotangent * (x.abs() <= edge), None

    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, edge):
            ctx.save_for_backward(x)
            ctx.edge = edge
            return (x > edge).to(x.dtype)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x.abs() < ctx.edge), None  # open where closed is meant

    status, words = asked("BP107", Gate, x, 0.7, expect_backward=declared)
    assert status is BROKEN
    assert "±0.7" in words


def test_a_soft_function_declares_too():
    def soft(x):
        return torch.nn.functional.hardtanh(x)

    assert asked("BP107", staircase(backward), x, expect=soft)[0] is HELD
    wide = staircase(lambda ctx, g: g * (ctx.saved_tensors[0].abs() <= 1.5))
    assert asked("BP107", wide, x, expect=soft)[0] is BROKEN


def test_several_inputs_and_outputs():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return torch.round(a), torch.round(b)

        @staticmethod
        def backward(ctx, g, h):
            return g + h, h

    def right(cotangents, a, b):
        g, h = cotangents
        return g + h, h

    def wrong(cotangents, a, b):
        g, h = cotangents
        return g, h

    b = normal(40, seed=1)
    assert asked("BP107", Two, x, b, expect_backward=right)[0] is HELD
    status, words = asked("BP107", Two, x, b, expect_backward=wrong)
    assert status is BROKEN
    assert "`a`" in words


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rounding_is_allowed_for(dtype):
    def declared(cotangent, x):
        return cotangent / (1 + 10 * x.abs()) ** 2

    def same_otherwise(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.exp(-2 * torch.log1p(10 * x.abs()))

    y = normal(40, dtype=dtype)
    assert (
        asked("BP107", staircase(same_otherwise), y, expect_backward=declared)[0]
        is HELD
    )


def test_nothing_is_declared():
    assert asked("BP107", torch.sin, x)[0] is NOT_APPLICABLE
