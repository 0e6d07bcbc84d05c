"""BP701: what the graph held is gone when the graph is."""

import gc

import pytest
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
kept: list[torch.Tensor] = []


@pytest.fixture(autouse=True)
def _nothing_kept():
    yield
    kept.clear()


def keeps_its_output(ctx, x):
    ctx.y = x.exp()
    return ctx.y


def remembers(ctx, x):
    kept.append(x)
    return 2 * x


FAULTS = {
    "the output on ctx": (
        function(keeps_its_output, lambda ctx, g: g * ctx.y),
        "output `output` stays alive when the graph is dropped, until",
    ),
    "the output in a container": (
        function(
            lambda ctx, x: ctx.__dict__.setdefault("made", [x.exp()])[0],
            lambda ctx, g: g * ctx.made[0],
        ),
        "output `output` stays alive when the graph is dropped, until",
    ),
    "a global list": (
        function(remembers, lambda ctx, g: 2 * g),
        "input `x` stays alive for ever",
    ),
}


@each(FAULTS)
def test_it_is_broken(made):
    target, first_line = made
    status, words = asked("BP701", target, x)
    assert status is BROKEN
    assert first_line in words.splitlines()[0]


def test_a_reference_made_by_backward_is_found_after_it():
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    def backward(ctx, g):
        (ctx.y,) = ctx.saved_tensors
        return g * ctx.y

    found = outcome("BP701", function(forward, backward), x)
    assert found.status is BROKEN
    assert found.words.splitlines()[1].startswith("after backward: a reference cycle")
    assert found.evidence[0].numbers == {"alive": "input `x`"}


def saves_its_output(ctx, x):
    y = x.exp()
    ctx.save_for_backward(y)
    return y


RIGHT = {
    "the output saved": function(
        saves_its_output, lambda ctx, g: g * ctx.saved_tensors[0]
    ),
    "the input saved": saving(lambda x: x * x, lambda g, x: 2 * g * x),
    "the input on ctx": function(
        lambda ctx, x: setattr(ctx, "x", x) or x * x, lambda ctx, g: 2 * g * ctx.x
    ),
    "torch's own": lambda x: torch.linalg.qr(x.reshape(3, 2)),
    "a module": torch.nn.BatchNorm1d(3).double(),
}


@each(RIGHT)
def test_it_holds(made):
    given = normal(4, 3) if isinstance(made, torch.nn.Module) else x
    assert asked("BP701", made, given)[0] is HELD


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_as_it_was(on):
    was = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        asked("BP701", FAULTS["the output on ctx"][0], x)
        assert gc.isenabled() is on
    finally:
        (gc.enable if was else gc.disable)()


def test_where_backward_raises_it_has_nothing_to_say():
    made = doubled(lambda ctx, g: 1 / 0)
    assert asked("BP701", made, x) == (NOT_APPLICABLE, "backward raised")
