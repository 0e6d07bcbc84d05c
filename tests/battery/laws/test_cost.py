"""What each law costs beside BP101, in calls of forward and backward.

Counted from outside, on a subject of one input and on one of two: what asking a law
adds. A law that has nothing to say of such a subject costs nothing.
"""

import inspect
import re

import pytest
import torch

import backproof
from backproof.battery.laws import LAWS
from tests.battery.subjects import normal


class Product(torch.autograd.Function):
    """x y, or x**2, with a forward mode; counts its calls."""

    num_forward = num_backward = 0

    @staticmethod
    def forward(x, y):
        Product.num_forward += 1
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        Product.num_backward += 1
        x, y = ctx.saved_tensors
        return g * y, g * x

    @staticmethod
    def jvp(ctx, dx, dy):
        x, y = ctx.saved_tensors
        return dx * y + x * dy


def square(x):
    return Product.apply(x, x)


def product(x, y):
    return Product.apply(x, y)


CASES = {1: (square, (normal(12, 5),)), 2: (product, (normal(12, 5), normal(12, 5)))}


def calls(codes, inputs, **options):
    target, arguments = CASES[inputs]
    Product.num_forward = Product.num_backward = 0
    backproof.check(target, *arguments, laws=codes, **options)
    return Product.num_forward, Product.num_backward


def added(code, inputs, **options):
    """By asking `code` after BP101."""
    plain = calls({"BP101"}, inputs)
    both = calls({"BP101", code}, inputs, **options)
    return both[0] - plain[0], both[1] - plain[1]


def reference(x, y=None):
    return x * x if y is None else x * y


EXACTLY = {  # code: (forwards, backwards) with one input, and with two
    "BP101": ((0, 0), (0, 0)),
    "BP104": ((0, 2), (0, 2)),
    "BP106": ((0, 0), (0, 0)),
    "BP107": ((0, 0), (0, 0)),
    "BP108": ((0, 0), (0, 0)),
    "BP109": ((0, 0), (0, 0)),
    "BP110": ((0, 1), (0, 1)),
    "BP201": ((2, 0), (2, 0)),
    "BP202": ((1, 1), (1, 1)),
    "BP203": ((2, 2), (3, 3)),  # an argument each, and the output
    "BP204": ((6, 4), (6, 4)),
    "BP205": ((8, 7), (8, 7)),
    "BP206": ((1, 4), (1, 4)),
    "BP208": ((1, 0), (1, 0)),
    "BP501": ((0, 0), (0, 0)),  # the subject is no Function's own apply
    "BP502": ((0, 0), (0, 0)),
    "BP504": ((0, 0), (2, 2)),  # two proper subsets
    "BP506": ((0, 0), (0, 0)),
    "BP601": ((3, 3), (3, 3)),
    "BP602": ((4, 3), (4, 3)),
    "BP701": ((2, 1), (2, 1)),
    "BP702": ((0, 0), (0, 0)),
}
AT_MOST = {
    "BP102": ((20, 20), (20, 20)),
    "BP103": ((4, 2), (6, 2)),
    "BP111": ((2, 2), (2, 2)),  # of the subject; that it differs would cost 2 more
    "BP207": ((2, 2), (2, 2)),
    "BP209": ((0, 0), (19, 8)),
    "BP503": ((8, 12), (16, 20)),
    "BP505": ((140, 40), (140, 40)),  # nine sizes
    "BP508": ((10, 7), (10, 7)),
}


def test_the_tables_hold_every_law():
    assert {*EXACTLY, *AT_MOST} == {law.code for law in LAWS}
    assert len(EXACTLY) + len(AT_MOST) == len(LAWS)


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("code", EXACTLY)
def test_it_costs_exactly(code, inputs):
    assert added(code, inputs) == EXACTLY[code][inputs - 1]


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("code", AT_MOST)
def test_it_costs_at_most(code, inputs):
    options = {"reference": reference} if code == "BP111" else {}
    forward, backward = added(code, inputs, **options)
    assert forward <= AT_MOST[code][inputs - 1][0]
    assert backward <= AT_MOST[code][inputs - 1][1]


def plainly_told():
    """(code, forwards, backwards) of docstrings that say "1 forward and 4 backwards."."""
    for law in LAWS:
        told = re.search(
            r"Cost: (\d+) forwards? and (\d+) backwards?\.",
            inspect.getdoc(law.measure),
        )
        if told is not None and law.code in EXACTLY:
            yield law.code, int(told[1]), int(told[2])


def test_docstrings_tell_the_same_numbers():
    told = list(plainly_told())
    assert len(told) >= 6
    for code, forward, backward in told:
        assert EXACTLY[code][0] == (forward, backward), code
