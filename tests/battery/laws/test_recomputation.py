"""BP207: what backward draws again is what forward drew."""

import random

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    NOT_APPLICABLE,
    asked,
    each,
    function,
    outcome,
)
from tests.battery.subjects import normal

x = normal(60)


def torchs(n):
    return (torch.rand(n) < 0.7).double()


def numpys(n):
    return torch.from_numpy(np.random.rand(n) < 0.7).double()


def pythons(n):
    return torch.tensor([random.random() < 0.7 for _ in range(n)]).double()


DRAWS = {"torch": torchs, "numpy": numpys, "python": pythons}


def anew(draw):
    """Draws the mask in forward, and again in backward."""
    return function(
        lambda ctx, x: x * draw(x.numel()), lambda ctx, g: g * draw(g.numel())
    )


@each(DRAWS)
def test_a_mask_that_is_drawn_anew_breaks_it(made):
    found = outcome("BP207", anew(made), x)
    assert found.status is BROKEN
    assert "backward draws random numbers anew" in found.words.splitlines()[0]
    assert found.evidence[0].numbers["name"] == "x"
    assert 10 < found.evidence[0].numbers["elements_wrong"] < 50


def kept(ctx, x):
    mask = torchs(x.numel())
    ctx.save_for_backward(mask)
    return x * mask


def with_its_state(ctx, x):
    ctx.state = torch.get_rng_state()
    return x * torchs(x.numel())


def replayed(ctx, g):
    with torch.random.fork_rng():
        torch.set_rng_state(ctx.state)
        return g * torchs(g.numel())


def recomputed(x):
    def noisy(x):
        return functional.dropout(x.sin(), 0.3)

    return torch.utils.checkpoint.checkpoint(noisy, x, use_reentrant=False)


RIGHT = {
    "the mask is kept": function(kept, lambda ctx, g: g * ctx.saved_tensors[0]),
    "the state is kept": function(with_its_state, replayed),
    "checkpoint keeps it": recomputed,
    "dropout": lambda x: functional.dropout(x, 0.5),
}


@each(RIGHT)
def test_it_holds(made):
    assert asked("BP207", made, x)[0] is HELD


@pytest.mark.parametrize("target", [torch.sin, torch.nn.Dropout(0.5).eval()])
def test_a_forward_that_draws_nothing_is_not_asked(target):
    status, words = asked("BP207", target, x)
    assert status is NOT_APPLICABLE
    assert words == "forward draws no random numbers: see BP601"


def test_a_backward_that_refuses_has_broken_nothing():
    def backward(ctx, g):
        if not torch.equal(ctx.state, torch.get_rng_state()):
            raise RuntimeError("the random state has moved on")
        return replayed(ctx, g)

    status, words = asked("BP207", function(with_its_state, backward), x)
    assert status is NOT_APPLICABLE
    assert "raises from another random state" in words
