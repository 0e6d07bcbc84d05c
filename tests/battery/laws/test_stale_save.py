"""BP203: what backward reads later, torch knows of."""

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

x, w = normal(6), normal(6, seed=1)


def keeps_the_input(ctx, x, w):
    ctx.x, ctx.w = x, w
    return x * w


def keeps_a_view(ctx, x, w):
    ctx.x, ctx.w = x[:], w.detach().clone()
    return x * w


def keeps_the_output(ctx, x, w):
    ctx.y = y = (x * w).exp()
    ctx.save_for_backward(x, w)
    return y


def of_the_exponential(ctx, g):
    x, w = ctx.saved_tensors
    return g * ctx.y * w, g * ctx.y * x


FAULTS = {
    "an input": (
        function(keeps_the_input, lambda ctx, g: (g * ctx.w, g * ctx.x)),
        "the argument `x` unguarded",
    ),
    "a view of one": (
        function(keeps_a_view, lambda ctx, g: (g * ctx.w, g * ctx.x)),
        "the argument `x` unguarded",
    ),
    "an output": (
        function(keeps_the_output, of_the_exponential),
        "the output `output` unguarded",
    ),
    "inside of the subject": (
        lambda x, w: inner.apply(x, w).sum(),
        "the argument `x` unguarded",
    ),
}
inner = function(keeps_the_input, lambda ctx, g: (g * ctx.w, g * ctx.x))


@each(FAULTS)
def test_it_is_broken(made):
    target, first_line = made
    status, words = asked("BP203", target, x, w)
    assert status is BROKEN
    assert first_line in words.splitlines()[0]
    assert "an in-place change before backward is used without an error" in words


def keeps_copies(ctx, x, w):
    ctx.x, ctx.w = x.clone(), w.clone()
    return x * w


RIGHT = {
    "saved": saving(lambda x, w: x * w, lambda g, x, w: (g * w, g * x)),
    "copies": function(keeps_copies, lambda ctx, g: (g * ctx.w, g * ctx.x)),
    "nothing is needed": function(lambda ctx, x, w: x + w, lambda ctx, g: (g, g)),
    "only the form is read": function(
        lambda ctx, x, w: (setattr(ctx, "x", x), x + w)[1],
        lambda ctx, g: (g.expand_as(ctx.x), g),
    ),
}


@each(RIGHT)
def test_it_holds(made):
    assert asked("BP203", made, x, w)[0] is HELD


def test_each_argument_and_output_is_changed_in_its_turn():
    found = outcome("BP203", RIGHT["saved"], x, w)
    assert [e.words for e in found.evidence] == [
        "a change of `inputs[0]` before backward is refused",
        "a change of `inputs[1]` before backward is refused",
        "a change of `output` before backward does not matter",
    ]


def test_the_numbers_name_what_was_changed_and_what_it_did():
    target, _ = FAULTS["an output"]
    (evidence,) = [e for e in outcome("BP203", target, x, w).evidence if not e.holds]
    assert evidence.numbers["changed"] == "output"
    assert evidence.numbers["elements_wrong"] == 6


def test_it_is_about_hand_written_functions():
    status, words = asked("BP203", torch.mul, x, w)
    assert status is NOT_APPLICABLE
    assert "no hand-written Function" in words


def test_an_argument_that_refuses_the_change_is_left_out():
    whole = torch.arange(6)
    made = function(lambda ctx, x, n: 2 * x, lambda ctx, g: (2 * g, None))
    assert len(outcome("BP203", made, x, whole).evidence) == 2
    assert asked("BP203", doubled(lambda ctx, g: 2 * g), x)[0] is HELD
