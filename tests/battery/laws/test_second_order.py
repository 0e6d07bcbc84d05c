"""BP102: a second backward is the derivative of backward."""

import pytest
import torch
from torch.autograd.function import once_differentiable

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

x = normal(8)


def keeps_the_slope(ctx, x):
    ctx.save_for_backward(x.cos())
    return x.sin()


def keeps_the_output(ctx, x):
    y = x.exp()
    ctx.save_for_backward(y)
    return y


def without_graph(g, x):
    with torch.no_grad():
        slope = torch.cos(x)
    return g * slope


def through_numpy(g, x):
    return torch.from_numpy(g.detach().numpy() * x.detach().cos().numpy())


class OffByAFactor(torch.autograd.Function):
    """A backward that calls a Function whose own backward is wrong."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.cos()

    @staticmethod
    def backward(ctx, g):
        return -2 * g * ctx.saved_tensors[0].sin()


FAULTS = {
    "a saved intermediate": (
        function(keeps_the_slope, lambda ctx, g: g * ctx.saved_tensors[0]),
        "the second derivative is zero for `inputs[0]`",
    ),
    ".detach()": (
        saving(torch.sin, lambda g, x: g * x.detach().cos()),
        "the second derivative is zero for `inputs[0]`",
    ),
    "no_grad": (
        saving(torch.sin, without_graph),
        "the second derivative is zero for `inputs[0]`",
    ),
    ".data of everything": (
        saving(torch.sin, lambda g, x: g.data * x.data.cos()),
        "is cut from the graph",
    ),
    "NumPy": (saving(torch.sin, through_numpy), "is cut from the graph"),
    "a wrong helper": (
        saving(torch.sin, lambda g, x: g * OffByAFactor.apply(x)),
        "the second derivative is wrong for `inputs[0]`",
    ),
    "the cotangent alone": (
        saving(torch.sin, lambda g, x: g.detach() * x.cos()),
        "the second derivative is zero for the cotangent of output",
    ),
}


@each(FAULTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_it_is_broken(made, dtype):
    target, first_line = made
    first_line = first_line.replace("inputs[0]", _name(target))
    status, words = asked("BP102", target, normal(8, dtype=dtype))
    assert status is BROKEN
    assert first_line in words.splitlines()[0]


def _name(target):
    names = target.forward.__code__.co_varnames
    return names[1] if names[1] != "inputs" else "inputs[0]"


def test_a_gradient_that_is_cut_beside_one_that_is_not_is_named():
    def backward(g, x, w):
        return g * w, (g * x).detach()

    made = saving(lambda x, w: x * w, backward)
    found = outcome("BP102", made, x, normal(8, seed=1))
    assert found.status is BROKEN
    assert "`inputs[1]` is cut from the graph" in found.words.splitlines()[0]
    assert found.evidence[0].numbers == {"inputs": ["inputs[1]"]}


RIGHT = {
    "from the input": saving(torch.sin, lambda g, x: g * x.cos()),
    "from the output": function(
        keeps_the_output, lambda ctx, g: g * ctx.saved_tensors[0]
    ),
    "linear": doubled(lambda ctx, g: 2 * g),
    "with a constant": saving(
        lambda x: x * 3.0, lambda g, x: g * torch.full_like(x, 3.0)
    ),
    "torch's own": torch.tanh,
}


@each(RIGHT)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_it_holds(made, dtype):
    status, words = asked("BP102", made, normal(8, dtype=dtype))
    assert status is HELD, words


def refuses_a_graph(g, x):
    if torch.is_grad_enabled():
        raise RuntimeError("no second order here")
    return g * x.cos()


@once_differentiable
def once(ctx, g):
    return g * ctx.saved_tensors[0].cos()


def keeps(ctx, x):
    ctx.save_for_backward(x)
    return x.sin()


REFUSALS = {
    "marked": (function(keeps, once), "backward is marked `once_differentiable`"),
    "it raises": (saving(torch.sin, refuses_a_graph), "no second order here"),
    "backward raised": (doubled(lambda ctx, g: 1 / 0), "backward raised"),
}


@each(REFUSALS)
def test_a_refusal_has_broken_nothing(made):
    target, reason = made
    status, words = asked("BP102", target, x)
    assert status is NOT_APPLICABLE
    assert reason in words


def test_a_wrong_derivative_says_claim_truth_and_bar():
    target, _ = FAULTS["a wrong helper"]
    (evidence,) = outcome("BP102", target, x).evidence
    assert set(evidence.numbers) == {"claim", "truth", "bar", "inputs"}
    assert evidence.numbers["bar"] < 1e-6 * abs(evidence.numbers["truth"])


def test_a_gradient_of_zero_has_nothing_to_lose():
    made = doubled(lambda ctx, g: torch.zeros_like(g))
    assert asked("BP102", made, x)[0] is NOT_APPLICABLE
