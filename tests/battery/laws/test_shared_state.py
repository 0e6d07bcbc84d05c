"""BP205: two pending calls do not share what they keep."""

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
last: dict[str, torch.Tensor] = {}
stack: list[torch.Tensor] = []
SETTINGS = {"slope": 2.0, "name": "leaky"}
SCALES = (2.0, 3.0)
strength = 2.0


def set_strength(value):
    global strength
    strength = value


def kept_in(store, keep, take):
    """x**2 with its input kept outside of ctx."""

    def forward(ctx, x):
        keep(store, x.detach().clone())
        return x * x

    return function(forward, lambda ctx, g: 2 * g * take(store))


def keeps_in_the_module(ctx, x):
    ctx.x = last["x"] = x.detach().clone()
    return x * x


def taken_once(ctx, g):
    if not hasattr(ctx, "slope"):
        ctx.slope = 2 * last["x"]
    return g * ctx.slope


def insists(ctx, g):
    if ctx.x is not last["x"]:
        raise RuntimeError("another call came between")
    return 2 * g * ctx.x


FAULTS = {
    "the last call's": (
        kept_in(last, lambda s, x: s.update(x=x), lambda s: s["x"]),
        "another forward changes a pending call's gradient",
    ),
    "a stack": (
        kept_in(stack, list.append, list.pop),
        "another forward changes a pending call's gradient",
    ),
    "the last call's at first use": (
        function(keeps_in_the_module, taken_once),
        "a gradient is that of the other call",
    ),
    "the last call's only": (
        function(keeps_in_the_module, insists),
        "raises when two forwards come before two backwards",
    ),
    "a setting in a dictionary": (
        doubled(lambda ctx, g: SETTINGS["slope"] * g),
        "backward looks up `SETTINGS['slope']`",
    ),
    "a global that is rebound": (
        doubled(lambda ctx, g: strength * g),
        "backward looks up `strength`",
    ),
}


@each(FAULTS)
def test_it_is_broken(made):
    target, first_line = made
    status, words = asked("BP205", target, x)
    assert status is BROKEN
    assert first_line in words
    assert SETTINGS == {"slope": 2.0, "name": "leaky"}
    assert strength == 2.0


def keeps_the_setting(ctx, x):
    ctx.slope = SETTINGS["slope"]
    return ctx.slope * x


cache: dict[int, float] = {}


def remembers(ctx, g):
    return cache.setdefault(g.numel(), 2.0) * g


RIGHT = {
    "saved": saving(lambda x: x * x, lambda g, x: 2 * g * x),
    "the setting that forward saw": function(
        keeps_the_setting, lambda ctx, g: ctx.slope * g
    ),
    "a constant": doubled(lambda ctx, g: SCALES[0] * g),
    "a cache of equals": doubled(remembers),
    "torch's own": torch.sin,
}


@each(RIGHT)
def test_it_holds(made):
    assert asked("BP205", made, x)[0] is HELD


def scaled(keep, read):
    """x times a plain number, which is kept somewhere for backward."""

    def forward(ctx, x, factor):
        keep(ctx, factor)
        return x * factor

    return function(forward, lambda ctx, g: (g * read(ctx), None))


slot: dict[str, float] = {}


def test_a_number_that_only_another_call_changes_is_state_too():
    in_a_slot = scaled(lambda ctx, f: slot.update(f=f), lambda ctx: slot["f"])
    status, words = asked("BP205", in_a_slot, x, 3.0)
    assert status is BROKEN
    assert "another forward changes a pending call's gradient" in words
    on_ctx = scaled(lambda ctx, f: setattr(ctx, "f", f), lambda ctx: ctx.f)
    assert asked("BP205", on_ctx, x, 3.0)[0] is HELD


FRACTIONS = {
    "a length": lambda x, f: torch.cat([x, x[: int(2 * f)]]),
    "below one": torch.nn.functional.dropout,
}


@each(FRACTIONS)
def test_a_fraction_that_cannot_change_stays(made):
    assert asked("BP205", made, x, 0.9)[0] is HELD


def test_the_numbers_say_in_which_order_and_where():
    target, _ = FAULTS["the last call's at first use"]
    evidence = outcome("BP205", target, x).evidence[-1]
    assert evidence.numbers["order"] == "the first"
    assert evidence.numbers["name"] == "x"
    target, _ = FAULTS["a setting in a dictionary"]
    evidence = outcome("BP205", target, x).evidence[-1]
    assert evidence.numbers["setting"] == "SETTINGS['slope']"


def test_a_forward_that_refuses_to_run_nearby_is_not_asked():
    def forward(x):
        if not torch.equal(x.detach(), normal(6)):
            raise ValueError("only there")
        return x.sin()

    status, words = asked("BP205", forward, x)
    assert status is NOT_APPLICABLE
    assert words == "forward refuses a second call nearby"
