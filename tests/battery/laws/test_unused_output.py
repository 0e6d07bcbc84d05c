"""BP506: outputs that nobody uses, and outputs whose gradient goes nowhere."""

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
)
from tests.battery.subjects import normal

x = normal(6)


def two(backward, *, materialize=True, mark=False, second=lambda x: 3 * x):
    """2 x and another output."""

    def forward(ctx, x):
        ctx.set_materialize_grads(materialize)
        other = second(x)
        if mark:
            ctx.mark_non_differentiable(other)
        return 2 * x, other

    return function(forward, backward)


def twice_where_the_other_is_none(ctx, g, h):
    return 4 * g if h is None else sums(ctx, g, h)


def sums(ctx, g, h):
    return sum(k * u for k, u in ((2, g), (3, h)) if u is not None)


FAULTS = {
    "None raises": (
        two(lambda ctx, g, h: 2 * g + 3 * h, materialize=False),
        "raises when only `output[0]` is used",
    ),
    "the second cotangent is dropped": (
        two(lambda ctx, g, h: 2 * g),
        "the cotangent of `output[1]` is not used",
    ),
    "the first cotangent is dropped": (
        two(lambda ctx, g, h: 3 * h),
        "the cotangent of `output[0]` is not used",
    ),
    "None is no zero": (
        two(twice_where_the_other_is_none, materialize=False),
        "None and zeros for the others give different gradients",
    ),
}


@each(FAULTS)
def test_it_is_broken(made):
    target, first_line = made
    status, words = asked("BP506", target, x)
    assert status is BROKEN
    assert first_line in words


RIGHT = {
    "zeros": two(lambda ctx, g, h: 2 * g + 3 * h),
    "None": two(sums, materialize=False),
    "an output that stands still": two(lambda ctx, g, h: 2 * g, second=torch.round),
    "torch's own": lambda x: torch.linalg.qr(x.reshape(3, 2)),
}


@each(RIGHT)
def test_it_holds(made):
    assert asked("BP506", made, x)[0] is HELD


NOT = {
    "one output": doubled(lambda ctx, g: 2 * g),
    "the other is marked": two(lambda ctx, g, h: 2 * g, mark=True),
    "integers beside": lambda x: (2 * x, x.argsort()),
}


@each(NOT)
def test_one_differentiable_output_is_always_used(made):
    status, words = asked("BP506", made, x)
    assert status is NOT_APPLICABLE
    assert words == "there is one differentiable output"


def test_the_evidence_names_each_output():
    found = outcome("BP506", two(lambda ctx, g, h: 2 * g), x)
    assert [e.numbers["output"] for e in found.evidence] == ["output[0]", "output[1]"]
    assert [e.holds for e in found.evidence] == [True, False]
