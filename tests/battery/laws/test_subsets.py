"""BP504: the same numbers whoever needs a gradient."""

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

x, w, b = normal(4, 3), normal(3, 5, seed=1), normal(5, seed=2)


def keeps(ctx, x, w, b):
    ctx.save_for_backward(x, w)
    return x @ w + b


def linear(backward):
    return function(keeps, backward)


def every(ctx, g):
    x, w = ctx.saved_tensors
    return g @ w.mT, x.mT @ g, g.sum(0)


def all_or_nothing(ctx, g):
    return every(ctx, g) if ctx.needs_input_grad[0] else (None, None, None)


def in_the_order_of_need(ctx, g):
    found = [
        d if need else None
        for d, need in zip(every(ctx, g), ctx.needs_input_grad, strict=True)
    ]
    if not ctx.needs_input_grad[1]:
        found[2] = None if found[2] is None else 2 * found[2]
    return tuple(found)


def unpacks(ctx, g):
    x, w = (t for t, n in zip(ctx.saved_tensors, ctx.needs_input_grad) if n)  # noqa: B905
    return g @ w.mT, x.mT @ g, g.sum(0)


def faster_when_frozen(x, w, b):
    return x @ w + (b if w.requires_grad else 0)


FAULTS = {
    "all or nothing": (
        linear(all_or_nothing),
        "is zero when only `w` needs a gradient",
    ),
    "another factor": (linear(in_the_order_of_need), "when only"),
    "it raises": (linear(unpacks), "backward raises"),
    "another forward": (faster_when_frozen, "forward gives other values"),
}


@each(FAULTS)
def test_it_is_broken(made):
    target, first_line = made
    status, words = asked("BP504", target, x, w, b)
    assert status is BROKEN
    assert first_line in words.splitlines()[0]


def only_what_is_needed(ctx, g):
    x, w = ctx.saved_tensors
    need = ctx.needs_input_grad
    return (
        g @ w.mT if need[0] else None,
        x.mT @ g if need[1] else None,
        g.sum(0) if need[2] else None,
    )


RIGHT = {
    "everything": linear(every),
    "only what is needed": linear(only_what_is_needed),
    "torch's own": lambda x, w, b: x @ w + b,
    "a constant argument": lambda x, w, b: x @ w + b.detach(),
}


@each(RIGHT)
def test_it_holds(made):
    status, words = asked("BP504", made, x, w, b)
    assert status is HELD, words


def test_the_held_words_count_the_subsets():
    assert asked("BP504", RIGHT["everything"], x, w, b)[1].startswith("6 subsets")
    told = asked("BP504", RIGHT["a constant argument"], x, w, b)[1]
    assert told.startswith("5 subsets")  # with `b` alone there is nothing to pull


def test_the_numbers_name_the_subset():
    found = outcome("BP504", linear(all_or_nothing), x, w, b)
    broken = [e.numbers["subset"] for e in found.evidence if e.holds is False]
    assert broken == ["w", "b", "w, b"]


def test_one_input_has_no_subsets():
    made = saving(lambda x: x * x, lambda g, x: 2 * g * x)
    status, words = asked("BP504", made, x)
    assert status is NOT_APPLICABLE
    assert words == "there is one input that needs a gradient"


def test_the_callers_tensors_still_need_theirs():
    asked("BP504", linear(every), x, w, b)
    assert all(t.requires_grad and t.is_leaf for t in (x, w, b))
    assert torch.equal(b, normal(5, seed=2))
