"""BP208: what forward depends on, it is handed."""

import functools

import torch
from torch import nn

from tests.battery.laws.asking import BROKEN, HELD, asked, each, function, outcome
from tests.battery.subjects import normal

x = normal(6)
weight, constant = normal(6, seed=1), normal(6, seed=2, grad=False)
weights = {"first": [weight]}
layer = nn.Linear(6, 6).double()


def scaled(read):
    """x times what `read()` finds."""
    return function(lambda ctx, x: x * read(), lambda ctx, g: g * read())


def over_a_closure():
    inner = normal(6, seed=3)
    return function(lambda ctx, x: x * inner, lambda ctx, g: g * inner)


def with_a_default(ctx, x, held=weight):
    return x * held


class Layer(nn.Module):
    """Hands its Function the input, and not the weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(normal(6, seed=4).detach())
        own = self.weight
        self.op = function(lambda ctx, x: x * own, lambda ctx, g: g * own)

    def forward(self, x):
        return self.op.apply(x.sin())


class Passes(Layer):
    """Hands it both."""

    def forward(self, x):
        return both.apply(x, self.weight)


def keeps(ctx, x, w):
    ctx.save_for_backward(x, w)
    return x * w


both = function(
    keeps, lambda ctx, g: (g * ctx.saved_tensors[1], g * ctx.saved_tensors[0])
)


def by_hand(w, x):
    return function(lambda ctx, x: x * w, lambda ctx, g: g * w).apply(x)


def by_name(x, *, w):
    return by_hand(w, x)


FAULTS = {
    "a global": (scaled(lambda: weight), "weight"),
    "in a container": (scaled(lambda: weights["first"][0]), "weights['first'][0]"),
    "a closure": (over_a_closure(), "inner"),
    "a default": (
        function(with_a_default, lambda ctx, g: g * weight),
        "a default argument",
    ),
    "a module's parameter": (scaled(lambda: layer(constant)), "layer.weight"),
    "by a Function inside": (lambda x: outer.apply(x.sin()), "weight"),
    "in a partial": (functools.partial(by_hand, weight), "a bound argument"),
    "in a partial, by name": (functools.partial(by_name, w=weight), "w"),
}
outer = scaled(lambda: weight)


@each(FAULTS)
def test_it_is_broken(made):
    target, name = made
    kept = weight.detach().clone()
    found = outcome("BP208", target, x)
    assert found.status is BROKEN
    told = {e.numbers["captured"] for e in found.evidence}
    assert name in told
    assert "needs a gradient, moves the outputs, and is captured" in found.words
    assert torch.equal(weight.detach(), kept)


def test_a_modules_own_parameter_is_named_as_it_calls_it():
    found = outcome("BP208", Layer(), normal(6))
    assert found.status is BROKEN
    assert found.evidence[0].numbers["captured"] == "weight"


def passes_it_on(x):
    return both.apply(x, weight)


RIGHT = {
    "a constant": scaled(lambda: constant),
    "autograd knows it": lambda x: x * weight,
    "handed on": passes_it_on,
    "a module that hands it on": Passes(),
    "only its form is read": scaled(lambda: torch.ones_like(weight)),
    "torch's own": torch.sin,
}


@each(RIGHT)
def test_it_holds(made):
    status, words = asked("BP208", made, x)
    assert status is HELD, words
