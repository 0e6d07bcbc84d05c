"""Each cause is named where it is one, and no other."""

import pytest
import torch

from backproof.diagnosis.causes import FIRST, LAST, LIBRARIES, PLAIN
from backproof.diagnosis.causes.passed_through import passed_on
from tests.diagnosis.asking import made, named, normal, numbers, words

X = (6, 8)


def tanh(backward):
    return named(torch.tanh, backward)


def softmax(backward):
    return named(lambda x: torch.softmax(x, -1), backward)


def negative_half(g, x, y):
    return torch.where(x <= 0, -g * (1 - y * y), g * (1 - y * y))


def doubled_columns(g, x, y):
    gradient = g * (1 - y * y)
    gradient[:, 5:] *= 2
    return gradient


ONE_INPUT = [
    ("missing", tanh(lambda g, x, y: torch.zeros_like(x))),
    ("missing", softmax(lambda g, x, y: 0 * g)),
    ("negated", tanh(lambda g, x, y: -g * (1 - y * y))),
    ("negated", tanh(negative_half)),
    ("scaled", tanh(lambda g, x, y: 0.5 * g * (1 - y * y))),
    ("scaled", tanh(doubled_columns)),
    ("scaled", named(lambda x: x.square().mean(), lambda g, x, y: 2 * g * x)),
    ("passed_through", tanh(lambda g, x, y: g)),
    ("cotangent_ignored", tanh(lambda g, x, y: 1 - y * y)),
    ("cotangent_ignored", softmax(lambda g, x, y: y)),
    ("transposed", named(lambda x: x.flip(1).exp(), lambda g, x, y: g * y)),
    ("transposed", named(lambda x: x.cumsum(-1), lambda g, x, y: g.cumsum(-1))),
    ("factor", tanh(lambda g, x, y: g * (1 - y))),
    ("factor", tanh(lambda g, x, y: g * (1 - y * y) * x)),
    ("factor", named(torch.exp, lambda g, x, y: g * y * y / x)),
    ("formula", tanh(lambda g, x, y: g * torch.erf(x * 1.7 + 0.3))),
    ("term", softmax(lambda g, x, y: g * y)),
    ("term", named(lambda x: x * x.sin(), lambda g, x, y: g * x.sin())),
    (
        "term",
        named(
            lambda x: x / x.norm(dim=-1, keepdim=True),
            lambda g, x, y: g / x.norm(dim=-1, keepdim=True),
        ),
    ),
    ("term", tanh(lambda g, x, y: g * (1 - y * y) + 0.01 * x)),
    ("precision", tanh(lambda g, x, y: g * (1 - y * y + 1e-4 * x.sin()))),
    ("precision", named(lambda x: x * torch.pi, lambda g, x, y: g * 3.1416)),
]


@pytest.mark.parametrize(
    ("cause", "function"),
    ONE_INPUT,
    ids=[f"{cause}-{k}" for k, (cause, _) in enumerate(ONE_INPUT)],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_cause_of_a_wrong_gradient(cause, function, seed):
    found = numbers(function, normal(*X, seed=seed), seed=seed)
    assert found["cause"] == cause


TWO_INPUTS = [
    ("swapped", torch.mul, lambda g, a, b, y: (g * a, g * b), X, X),
    ("transposed", torch.matmul, lambda g, a, b, y: (g @ b, a.T @ g), (5, 5), (5, 5)),
    ("transposed", torch.matmul, lambda g, a, b, y: (b @ g.T, a.T @ g), (5, 5), (5, 5)),
    ("summed", torch.add, lambda g, a, b, y: (g, g.sum(1)), (5, 5), (5,)),
    ("summed", torch.add, lambda g, a, b, y: (g, g[0]), (5, 5), (5,)),
    ("scaled", torch.add, lambda g, a, b, y: (g, g.mean(0)), (4, 6), (6,)),
    ("negated", torch.sub, lambda g, a, b, y: (g, g.exp() * 0 + g), (4, 6), (4, 6)),
    ("factor", torch.mul, lambda g, a, b, y: (g * b, g * a * b), X, X),
]


@pytest.mark.parametrize(
    ("cause", "forward", "backward", "one", "two"),
    TWO_INPUTS,
    ids=[f"{row[0]}-{k}" for k, row in enumerate(TWO_INPUTS)],
)
def test_the_cause_between_two_inputs(cause, forward, backward, one, two):
    found = numbers(made(forward, backward), normal(*one), normal(*two, seed=1))
    allowed = {cause, "passed_through"} if forward is torch.sub else {cause}
    assert found["cause"] in allowed


@pytest.mark.parametrize(
    "backward",
    [
        lambda g, z: 2 * g * z,
        lambda g, z: 2 * g.conj() * z,
        lambda g, z: 2 * g.conj() * z.conj(),
    ],
    ids=["of the derivative", "of both", "of the cotangent"],
)
def test_a_missing_conjugate(backward):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

    z = torch.view_as_complex(normal(12, 2, grad=False)).requires_grad_()
    assert numbers(Square, z)["cause"] == "conjugate"


def test_a_tail_that_a_sum_leaves_out():
    def backward(g, x, bias, y):
        return g, g[:32].sum(0)

    function = made(lambda x, bias: x + bias, backward)
    assert numbers(function, normal(40, 3), normal(3, seed=1))["cause"] == "summed"
    assert "from index 32 on along axis 0" in words(
        function, normal(40, 3), normal(3, seed=1)
    )


def test_what_is_zero_is_no_relation():
    def forward(x):
        return x.clamp(min=0).sin()

    found = numbers(named(forward, lambda g, x, y: g * x.cos()), normal(5, 6))
    assert (found["cause"], found["region_expression"]) == ("factor", "x <= 0")


def test_a_gradient_that_is_not_linear_in_its_cotangent():
    square = named(torch.sin, lambda g, x, y: g * g * x.cos())
    assert numbers(square, normal(20))["cause"] == "nonlinear"


def test_a_backward_that_does_not_repeat():
    total = torch.zeros(20, dtype=torch.float64)

    def backward(g, x, y):
        return total.add_(g * x.cos()).clone()

    assert numbers(named(torch.sin, backward), normal(20))["cause"] == "stale"


def test_a_value_of_another_call():
    class Stale(torch.autograd.Function):
        last = None

        @staticmethod
        def forward(ctx, x):
            Stale.last = x.detach()
            return x.exp()

        @staticmethod
        def backward(ctx, g):
            return g * Stale.last.exp()

    assert numbers(Stale, normal(20))["cause"] == "stale"


def test_right_only_in_another_layout():
    class Strided(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            raw = torch.as_strided(x, x.shape, (x.shape[1], 1), x.storage_offset())
            return g * raw.cos()

    x = normal(8, 6, grad=False).T.requires_grad_()
    found = numbers(Strided, x)
    assert found["cause"] == "variant"
    assert "(1, 6)" in words(Strided, x)


def test_rows_that_overwrite_one_another():
    class Lookup(torch.autograd.Function):
        @staticmethod
        def forward(ctx, table, index):
            ctx.save_for_backward(index)
            ctx.shape = table.shape
            return table[index]

        @staticmethod
        def backward(ctx, g):
            (index,) = ctx.saved_tensors
            gradient = g.new_zeros(ctx.shape)
            gradient[index] = g
            return gradient, None

    index = torch.tensor([0, 3, 3, 4, 3, 0])
    assert numbers(Lookup, normal(6, 4), index)["cause"] == "summed"
    assert "names more than once" in words(Lookup, normal(6, 4), index)


def test_what_nothing_explains_says_what_was_ruled_out():
    odd = named(torch.special.ndtri, lambda g, x, y: g * torch.erf(x * 1.7 + 0.3))
    x = normal(*X).detach().sigmoid().requires_grad_()
    assert numbers(odd, x)["cause"] == "not explained"
    text = words(odd, x)
    assert "not explained; ruled out: stale, nonlinear, missing, " in text
    assert "negated, " in text


def test_constants_are_named_for_what_they_are():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.scale = scale
            return (x * scale).sin()

        @staticmethod
        def backward(ctx, g):
            return None, None

    class Forgot(Scale):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x)
            return Scale.forward(ctx, x, scale)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x * ctx.scale).cos(), None

    assert "1/`scale`" in words(Forgot, normal(30), 0.3)
    mean = named(lambda x: x.square().mean(), lambda g, x, y: 2 * g * x)
    assert "the number of elements of `x`" in words(mean, normal(37))


def test_every_cause_has_a_relation_and_a_name_of_its_own():
    every = (*FIRST, *PLAIN, *LIBRARIES, *LAST)
    asked = [cause for cause in every if cause is not passed_on]
    assert len({cause.name for cause in asked}) == len(asked)
    assert all(cause.relation.startswith(("It ", "Its ", "A ")) for cause in every)
