"""The derivative of a tensor that forward made and kept: carried, or refused."""

import pytest
import torch
from torch.func import hessian, jacrev

from backproof.errors import NoDerivative, Undeclared
from tests.definition.swish import (
    INNER,
    first_of,
    from_output_alone,
    from_saved,
    function,
    leaf,
    output_alone,
    saved,
    second_derivative,
    swish,
    swish_rule,
)

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")


def on_ctx(wrap):
    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(x)
        ctx.kept = wrap(s)
        return x * s

    return forward


def from_ctx(ctx, g):
    s = ctx.kept
    while isinstance(s, (list, tuple, dict)):
        s = s[0]
    return swish_rule(g, *ctx.saved_tensors, s)


CARRIED = {
    "saved": (saved, from_saved),
    "without its input": (output_alone, from_output_alone),
    "on ctx": (on_ctx(lambda s: s), from_ctx),
    "in a list on ctx": (on_ctx(lambda s: [s]), from_ctx),
    "deep in a dict on ctx": (on_ctx(lambda s: {0: ([s],)}), from_ctx),
}
TAKEN = {
    "eager": second_derivative,
    "eager, beside": lambda f: second_derivative(lambda x: f(x) + x**2),
    "hessian": lambda f: hessian(lambda x: f(x).exp().sum())(INNER),
    "jacrev twice": lambda f: jacrev(jacrev(lambda x: f(x).exp().sum()))(INNER),
    "hessian under vmap": lambda f: torch.vmap(hessian(lambda x: f(x).exp().sum()))(
        torch.stack([INNER, INNER.cos()])
    ),
}
each_way = pytest.mark.parametrize("take", TAKEN.values(), ids=TAKEN.keys())


@each_way
@pytest.mark.parametrize("body", CARRIED.values(), ids=CARRIED.keys())
def test_the_derivative_of_an_intermediate_is_carried(body, take):
    op = function(*body).apply
    torch.testing.assert_close(take(op), take(swish), rtol=1e-10, atol=1e-12)


def out_of_sight(make):
    def forward(ctx, x):
        s = make(x)
        ctx.save_for_backward(x, s)
        return x * s

    return forward


class Holder:
    def __init__(self, tensor):
        self.tensor = tensor


def holding(ctx, x):
    s = torch.sigmoid(x)
    ctx.save_for_backward(x)
    ctx.rule = lambda g: swish_rule(g, x.detach(), s)
    ctx.holder = Holder(s)
    return x * s


HIDDEN = {
    "made under no_grad": (out_of_sight(torch.no_grad()(torch.sigmoid)), from_saved),
    "made of x.detach()": (out_of_sight(lambda x: x.detach().sigmoid()), from_saved),
    "made of x.data": (out_of_sight(lambda x: x.data.sigmoid()), from_saved),
    "in an object on ctx": (
        holding,
        lambda ctx, g: swish_rule(g, *ctx.saved_tensors, ctx.holder.tensor),
    ),
    "in a closure on ctx": (holding, lambda ctx, g: ctx.rule(g)),
}


@each_way
@pytest.mark.parametrize("body", HIDDEN.values(), ids=HIDDEN.keys())
def test_what_is_hidden_is_right_or_refused(body, take):
    try:
        found = take(function(*body).apply)
    except (NoDerivative, Undeclared):
        return
    torch.testing.assert_close(found, take(swish), rtol=1e-10, atol=1e-12)


# ------------------------------------------------------- what is constant, or is not


def test_values_that_are_no_numbers_are_carried():
    def forward(ctx, x):
        quotient = x / x.relu()
        ctx.save_for_backward(x, quotient, 1 / (x * 0))
        return x.sin()

    def backward(ctx, g):
        x, quotient, infinite = ctx.saved_tensors
        return g * torch.where(quotient.isfinite() & infinite.isnan(), 0, x.cos())

    x = leaf()
    first = first_of(function(forward, backward).apply, x)
    torch.testing.assert_close(first, x.cos())
    torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], -x.sin())


def test_masks_and_constants_of_torch_are_constants():
    def forward(ctx, x):
        mask = (x > 0).to(x.dtype)
        ctx.save_for_backward(x, mask, torch.arange(3.0, dtype=x.dtype), (x > 0))
        return x**3 * mask

    def backward(ctx, g):
        x, mask, steps, chosen = ctx.saved_tensors
        return torch.where(chosen, 3 * g * x**2 * mask * (steps + 1) / (steps + 1), 0)

    x = leaf()
    first = first_of(function(forward, backward).apply, x)
    found = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(found, (6 * x * (x > 0),))


@pytest.mark.parametrize("kept", [saved, output_alone], ids=["input", "no input"])
def test_third_derivatives(kept):
    rule = from_saved if kept is saved else from_output_alone
    op = function(kept, rule).apply
    third = [jacrev(hessian(lambda x, f=f: f(x).sum()))(INNER) for f in (op, swish)]
    torch.testing.assert_close(*third, rtol=1e-9, atol=1e-11)

    def eagerly(f):
        x = leaf()
        y = f(x).sum()
        for _ in range(3):
            y = torch.autograd.grad(y, x, create_graph=True)[0].sin().sum()
        return y.detach()

    torch.testing.assert_close(eagerly(op), eagerly(swish))


def test_one_input_of_two_made_it():
    def forward(ctx, x, w):
        e = w.exp()
        ctx.save_for_backward(x, e)
        return x * e

    def backward(ctx, g):
        x, e = ctx.saved_tensors
        return g * e, g * x * e

    def take(f):
        x, w = leaf(), leaf()
        first = torch.autograd.grad(f(x, w).sin().sum(), (x, w), create_graph=True)
        return torch.autograd.grad(sum((g**2).sum() for g in first), (x, w))

    op = function(forward, backward).apply
    torch.testing.assert_close(take(op), take(lambda x, w: x * w.exp()))


def test_the_values_are_those_of_the_first_run():
    calls = []

    def forward(ctx, x):
        calls.append(torch.is_grad_enabled())
        return saved(ctx, x)

    op = function(forward, from_saved).apply
    x = leaf()
    torch.autograd.grad(op(x).sum(), x)
    assert calls == [False]
    first_of(op, x)
    assert calls == [False, False, True]
