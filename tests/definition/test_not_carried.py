"""Where the derivative of what forward made cannot be told, somebody is told so."""

import itertools
import random

import numpy as np
import pytest
import torch
from torch.func import jacrev

from backproof.errors import NoDerivative
from tests.definition.swish import (
    INNER,
    first_of,
    from_output_alone,
    from_saved,
    function,
    leaf,
    output_alone,
    swish,
    swish_rule,
)

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")


def test_an_input_that_is_gone():
    x = leaf()
    y = function(output_alone, from_output_alone).apply(x * 1)
    with pytest.raises(
        NoDerivative, match=r"^Op: .* the input is gone\. Save the input"
    ):
        torch.autograd.grad(y.sum(), x, create_graph=True)


def test_an_input_that_was_changed():
    x = leaf()
    held = x * 1
    y = function(output_alone, from_output_alone).apply(held)
    held.add_(1)
    with pytest.raises(NoDerivative, match="the input was changed in place"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


def test_neither_matters_to_the_first_derivative():
    op = function(output_alone, from_output_alone).apply
    found = torch.autograd.grad(op((x := leaf()) * 1).sum(), x)
    expected = torch.autograd.grad(swish(x).sum(), x)
    torch.testing.assert_close(found, expected)
    held = x * 1
    y = op(held)
    held.add_(1)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x), expected)


def drawing(draw):
    def forward(ctx, x):
        s = x * draw(x)
        ctx.save_for_backward(x, s)
        return x * s

    return forward


def twice_s(ctx, g):
    return 2 * g * ctx.saved_tensors[1]


DRAWS = {
    "torch": (torch.rand_like, "draws random numbers"),
    "Python": (lambda x: random.random(), "does not repeat"),
    "NumPy": (lambda x: torch.from_numpy(np.random.rand(3)), "does not repeat"),
}


@pytest.mark.parametrize(("draw", "says"), DRAWS.values(), ids=DRAWS.keys())
def test_random_numbers(draw, says):
    x = leaf()
    first = first_of(function(drawing(draw), twice_s).apply, x)
    with pytest.raises(NoDerivative, match=says):
        torch.autograd.grad(first.sum(), x)


@pytest.mark.parametrize(("draw", "says"), DRAWS.values(), ids=DRAWS.keys())
def test_random_numbers_under_a_transform(draw, says):
    op = function(drawing(draw), twice_s).apply
    with pytest.raises((NoDerivative, RuntimeError), match=f"{says}|randomness"):
        jacrev(jacrev(lambda x: op(x).sum()))(INNER)


def test_the_state_of_the_generator_is_that_of_one_forward():
    x = leaf()
    op = function(drawing(torch.rand_like), twice_s).apply
    torch.manual_seed(3)
    first_of(op, x)
    after = torch.rand(2)
    torch.manual_seed(3)
    torch.rand_like(x)
    assert torch.rand(2).tolist() == after.tolist()


def in_numpy(ctx, x):
    s = torch.from_numpy(1 / (1 + np.exp(-x.detach().numpy())))
    ctx.save_for_backward(x, s)
    return x * s


def test_what_is_made_outside_of_torch():
    x = leaf()
    first = first_of(function(in_numpy, from_saved).apply, x)
    torch.testing.assert_close(first.detach(), first_of(swish, x).detach())
    with pytest.raises(NoDerivative, match=r"outside of torch|does not repeat"):
        torch.autograd.grad(first.sum(), x)


def test_other_attributes_each_time():
    count = itertools.count()

    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(x)
        setattr(ctx, f"s{next(count)}", s)
        return x * s

    x = leaf()
    op = function(forward, lambda ctx, g: swish_rule(g, *ctx.saved_tensors, ctx.s0))
    first = first_of(op.apply, x)
    with pytest.raises(NoDerivative, match="does not repeat what it saves"):
        torch.autograd.grad(first.sum(), x)
