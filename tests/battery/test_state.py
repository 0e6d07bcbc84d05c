"""What a function writes beside its own variables."""

import pytest

from backproof.battery.code import code_of
from backproof.battery.state import context_writes, outer_writes

STATE = {}
STACK = []
last = None


class Slot:
    value = None


def sets_a_class(ctx, x):
    Slot.value = x


def fills_a_dictionary(ctx, x):
    STATE["x"] = x


def pushes(ctx, x):
    STACK.append(x)


def rebinds(ctx, x):
    global last
    last = x


def in_place(ctx, x):
    STATE["buffer"].copy_(x)


def uses_up(ctx, x):
    ctx.parts.pop()
    ctx.count = 0
    y = x * 2
    y[0] = 1
    z = []
    z.append(y)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (sets_a_class, "Slot.value"),
        (fills_a_dictionary, "STATE"),
        (pushes, "STACK"),
        (rebinds, "last"),
    ],
)
def test_what_outlives_a_call(function, name):
    code = code_of(function)
    assert [n for n, _ in outer_writes(code)] == [name]
    assert list(context_writes(code)) == []


def test_what_is_its_own():
    code = code_of(uses_up)
    assert list(outer_writes(code)) == []
    assert [n for n, _ in context_writes(code)] == ["parts", "count"]
    assert next(context_writes(code))[1].text == "ctx.parts.pop()"
