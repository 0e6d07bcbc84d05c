"""BP206: a kept graph bears a second backward, and a freed one says that it does not."""

import torch

import backproof
from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    asked,
    doubled,
    each,
    function,
    outcome,
    saving,
)
from tests.battery.subjects import normal

x = normal(5)


def keeping(backward):
    """2 x, with a tensor of twos as `ctx.kept`."""

    def forward(ctx, x):
        ctx.kept = torch.full_like(x, 2.0)
        ctx.save_for_backward(x)
        return 2 * x

    return function(forward, backward)


def gives_it_away(ctx, g):
    return g * ctx.__dict__.pop("kept")


def halves_it(ctx, g):
    gradient = g * ctx.kept
    ctx.kept /= 2
    return gradient


def accumulates(ctx, g):
    ctx.total = getattr(ctx, "total", 0) + 2 * g
    return ctx.total


def hides_the_error(ctx, g):
    try:
        ctx.saved_tensors  # noqa: B018
    except RuntimeError:
        raise KeyError("x") from None
    return 2 * g


def swallows_the_error(ctx, g):
    try:
        (x,) = ctx.saved_tensors
    except RuntimeError:
        return torch.zeros_like(g)
    return 2 * g + 0 * x


FAULTS = {
    "what it kept is gone": (gives_it_away, "kept graph raises"),
    "what it kept is another": (halves_it, "kept graph gives another gradient"),
    "it adds up": (accumulates, "kept graph gives another gradient"),
    "another error": (hides_the_error, "freed graph does not say so"),
    "no error": (swallows_the_error, "instead of an error"),
}


@each(FAULTS)
def test_it_is_broken(made):
    backward, first_line = made
    status, words = asked("BP206", keeping(backward), x)
    assert status is BROKEN
    assert first_line in words.splitlines()[0]


def kept_for_later(ctx, g):
    if not hasattr(ctx, "factor"):
        ctx.factor = ctx.saved_tensors[0] * 0 + 2
    return g * ctx.factor


RIGHT = {
    "saved": saving(lambda x: x * x, lambda g, x: 2 * g * x),
    "nothing saved": doubled(lambda ctx, g: 2 * g),
    "computed once and kept": keeping(kept_for_later),
    "torch's own": torch.sin,
}


@each(RIGHT)
def test_it_holds(made):
    assert asked("BP206", made, x)[0] is HELD


def test_the_numbers_are_those_of_the_comparison():
    (evidence,) = outcome("BP206", keeping(halves_it), x).evidence
    assert evidence.numbers["name"] == "x"
    assert evidence.numbers["elements_wrong"] == 5
    assert evidence.numbers["departure"] == 0.5


@each({"raises": gives_it_away, "gives another": halves_it})
def test_other_laws_then_record_anew_for_each_backward(made):
    report = backproof.check(keeping(made), x)
    assert "BP101" not in {f.code for f in report.findings}
    assert report.subjects[0].outcome("BP101").status is HELD
    assert report.subjects[0].outcome("BP104").status is HELD
