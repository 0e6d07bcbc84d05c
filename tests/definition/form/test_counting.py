"""How many gradients a return gives: certain, or unknown."""

import textwrap

import pytest

from backproof.definition.form.counting import Counting
from backproof.definition.form.gradients import value_of
from backproof.source import functions_in

CLASS = """
import torch
class F(torch.autograd.Function):
    @staticmethod
    def backward(ctx, g, n, *rest):
"""

CERTAIN = {
    "return g": 1,
    "return g, None": 2,
    "return g * n": 1,
    "return n * g.clone()": 1,
    "return n - 1": 1,
    "return n * 0.5": 1,
    "return -n": 1,
    "return g[0] + n": 1,
    "return [g, g]": 1,
    "return (g,) + (None,) * 3": 4,
    "return 2 * (None, None)": 4,
    "return g, *[None] * 2": 3,
    "return (g, None) if n else (None, g)": 2,
    "y = g * n\ny += 1\nreturn y": 1,
    "g = g * n\nreturn g": 1,
    "y = None\nif n:\n    y = g.neg()\nreturn y": 1,
    "y = g, None\nreturn y": 2,
}

UNKNOWN = [
    "return n",
    "return rest",
    "return f(g)",
    "return g.split(2)",
    "return n * 2",
    "return n + n",
    "return (None,) * n",
    "return (None,) * (n - 1)",
    "return g, *rest",
    "return (g,) + rest",
    "return (g, None) if n else g",
    "y = g, None\ny += (None,)\nreturn y",
    "y, z = f(g)\nreturn y",
    "y = g\ny, z = f(g)\nreturn y",
    "y = g\nif n:\n    y = f(g)\nreturn y",
    "n = n * 2\nreturn n",
    "k = 2\nreturn n * k",
    "for g in rest:\n    pass\nreturn g",
]


def counted(body):
    text = CLASS + textwrap.indent(body, " " * 8)
    method = functions_in(text, "f.py")[0].methods["backward"]
    return Counting(method, ("g",)).count(value_of(method.returns[-1]))


@pytest.mark.parametrize(("body", "count"), CERTAIN.items(), ids=CERTAIN)
def test_it_is_certain(body, count):
    assert counted(body) == count


@pytest.mark.parametrize("body", UNKNOWN, ids=UNKNOWN)
def test_it_is_unknown(body):
    assert counted(body) is None
