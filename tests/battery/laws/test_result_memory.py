"""BP204: results do not live in memory that the next call, or an input, shares."""

import itertools

import torch
from torch import nn

from tests.battery.laws.asking import BROKEN, HELD, asked, doubled, each, function
from tests.battery.subjects import normal

x = normal(6)
buffer = torch.empty(6, dtype=torch.float64)
pair = itertools.cycle([torch.empty(6, dtype=torch.float64) for _ in range(2)])
ring = itertools.cycle([torch.empty(6, dtype=torch.float64) for _ in range(64)])


def fills(make):
    """2 x into memory of the op's own."""
    return function(
        lambda ctx, x: torch.mul(x, 2, out=make()).detach(), lambda ctx, g: 2 * g
    )


def fills_the_gradient(ctx, g):
    return torch.mul(g, 2, out=buffer).detach()


def adds_up(ctx, g):
    return buffer.copy_(2 * g)


class Accumulates(nn.Module):
    """Hands its buffer out."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(6, dtype=torch.float64))
        self.weight = nn.Parameter(torch.ones(6, dtype=torch.float64))

    def forward(self, x):
        self.total += x.detach()
        return x * self.weight, self.total * 1


class Scratch(nn.Module):
    """Hands out the buffer that it works in."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scratch", torch.zeros(6, dtype=torch.float64))

    def forward(self, x):
        scratch = self.scratch
        return fills(lambda: scratch).apply(x)


FAULTS = {
    "one output buffer": (fills(lambda: buffer), "overwrites `output`"),
    "two in turn": (fills(lambda: next(pair)), "overwrites `output`"),
    "a module's buffer": (Scratch(), "overwrites `output`"),
    "a gradient buffer": (
        doubled(fills_the_gradient),
        "overwrites the gradient of `x`",
    ),
    "the buffer itself": (doubled(adds_up), "overwrites the gradient of `x`"),
    "the input's memory": (
        function(lambda ctx, x: x.data, lambda ctx, g: g),
        "`output` lives in the memory of `x`, and autograd does not know",
    ),
    "through NumPy": (
        function(lambda ctx, x: torch.from_numpy(x.numpy()), lambda ctx, g: g),
        "`output` lives in the memory of `x`, and autograd does not know",
    ),
}


@each(FAULTS)
def test_it_is_broken(made):
    target, first_line = made
    status, words = asked("BP204", target, x)
    assert status is BROKEN
    assert first_line in words


def works_in_place(ctx, x):
    ctx.mark_dirty(x)
    return x.mul_(2)


RIGHT = {
    "new memory": doubled(lambda ctx, g: 2 * g),
    "more memory than calls": fills(lambda: next(ring)),
    "a view": lambda x: x.view(2, 3).mT,
    "a view of a Function's": function(
        lambda ctx, x: x.view(2, 3), lambda ctx, g: g.reshape(6)
    ),
    "in place, and marked": function(works_in_place, lambda ctx, g: 2 * g),
    "the cotangent handed on": function(lambda ctx, x: x + 1, lambda ctx, g: g),
    "a module's running sum": Accumulates(),
}


@each(RIGHT)
def test_it_holds(made):
    status, words = asked("BP204", made, x)
    assert status is HELD, words


def test_a_modules_buffers_are_not_touched():
    module = Accumulates()
    asked("BP204", module, x)
    assert torch.equal(module.total, torch.zeros(6, dtype=torch.float64))
