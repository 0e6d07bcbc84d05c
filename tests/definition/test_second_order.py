"""A derivative of backward is right or refused; no term of it is dropped."""

import numpy as np
import pytest
import torch
from torch.autograd.function import once_differentiable
from torch.func import hessian, jacrev

import backproof
from backproof.errors import NoDerivative
from tests.definition.swish import INNER, function, leaf, second_derivative

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")


# --------------------------------------------------- backwards without a derivative


def keeping_input(ctx, x):
    ctx.save_for_backward(x)
    return x**3


@once_differentiable
def marked(ctx, g):
    (x,) = ctx.saved_tensors
    return 3 * g * x**2


def in_numpy(ctx, g):
    (x,) = ctx.saved_tensors
    return torch.from_numpy(3 * g.detach().numpy() * x.detach().numpy() ** 2)


def detached(ctx, g):
    (x,) = ctx.saved_tensors
    return (3 * g * x**2).detach()


def without_grad(ctx, g):
    (x,) = ctx.saved_tensors
    with torch.no_grad():
        return 3 * g * x**2


BLIND = {
    "once_differentiable": marked,
    "NumPy": in_numpy,
    "detached": detached,
    "no_grad": without_grad,
}
each_blind = pytest.mark.parametrize("rule", BLIND.values(), ids=BLIND.keys())
BESIDE = {
    "added": lambda y, x: y + x**2,
    "multiplied": lambda y, x: y * x.exp(),
}


def penalised(op, beside, how, x):
    (first,) = torch.autograd.grad(beside(op(x), x).sum(), x, create_graph=True)
    penalty = (first**2).sum()
    if how == "backward":
        penalty.backward()
        return x.grad
    return torch.autograd.grad(penalty, x)[0]


@pytest.mark.parametrize("how", ["backward", "grad of inputs"], ids=str)
@pytest.mark.parametrize("beside", BESIDE.values(), ids=BESIDE.keys())
@each_blind
def test_a_gradient_penalty_is_refused(rule, beside, how):
    op = function(keeping_input, rule).apply
    with pytest.raises(NoDerivative, match=r"^Op: a derivative of its backward was"):
        penalised(op, beside, how, leaf())


@pytest.mark.parametrize("of", [hessian, lambda f: jacrev(jacrev(f))], ids=["fr", "rr"])
def test_so_is_a_hessian(of):
    op = function(keeping_input, marked).apply
    with pytest.raises(NoDerivative, match="is marked `once_differentiable`"):
        of(lambda x: (op(x) + x**2).sum())(INNER)


@each_blind
def test_the_first_derivative_is_there(rule):
    x = leaf()
    op = function(keeping_input, rule).apply
    (plain,) = torch.autograd.grad(op(x).sum(), x)
    (with_graph,) = torch.autograd.grad(op(x).sum(), x, create_graph=True)
    for first in (plain, with_graph):
        assert first.tolist() == (3 * INNER**2).tolist()


@each_blind
def test_a_derivative_by_something_else_goes_by(rule):
    x, w = leaf(), leaf()
    y = function(keeping_input, rule).apply(x) + (x * w)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (by_w,) = torch.autograd.grad((first * w).sum(), w)
    torch.testing.assert_close(by_w, 3 * INNER**2 + 2 * INNER)


def test_a_gradient_that_happens_to_be_zero_does_not_hide_it():
    def square(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    def rule(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.from_numpy(2 * g.detach().numpy() * x.detach().numpy())

    x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    y = function(square, rule).apply(x) + x.sin()
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(
        NoDerivative, match="a derivative of its backward was asked for"
    ):
        torch.autograd.grad(first.sum(), x)


def test_a_gradient_that_is_always_zero_has_a_derivative():
    op = function(keeping_input, lambda ctx, g: torch.zeros_like(g)).apply
    x = leaf()
    (first,) = torch.autograd.grad((op(x) + x**2).sum(), x, create_graph=True)
    assert torch.autograd.grad(first.sum(), x)[0].tolist() == [2, 2, 2]


FACTORS = {
    "NumPy": lambda x: torch.from_numpy(np.cos(x.detach().numpy())),
    "detach": lambda x: x.detach().cos(),
    "no_grad": torch.no_grad()(torch.cos),
}


@pytest.mark.parametrize("factor", FACTORS.values(), ids=FACTORS.keys())
def test_a_factor_that_is_computed_out_of_sight_is_refused(factor):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    op = function(forward, lambda ctx, g: g * factor(*ctx.saved_tensors)).apply
    with pytest.raises(NoDerivative, match="a derivative of its backward"):
        second_derivative(op)


def test_a_hidden_factor_is_refused_in_forward_mode_twice():
    class Hidden(backproof.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x.detach().cos()

    x = torch.linspace(-1, 1, 3, dtype=torch.float64)
    _, tangent = torch.func.jvp(Hidden.apply, (x,), (x,))
    torch.testing.assert_close(tangent, x * x.cos())
    twice = torch.func.jacfwd(torch.func.jacfwd(lambda x: Hidden.apply(x).sum()))
    with pytest.raises(backproof.NoDerivative):
        twice(x)
