"""BP601: the same call gives the same numbers, or is as noisy as it says."""

import random

import numpy as np
import torch
from torch.nn import functional

from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    asked,
    doubled,
    each,
    function,
    outcome,
    saving,
)
from tests.battery.subjects import normal

x = normal(30)
calls = {"forward": 0, "backward": 0}
unseeded = random.Random(5)


def counted(phase):
    """1, and 1e-9 more at each call."""
    calls[phase] += 1
    return 1 + 1e-9 * calls[phase]


def jitter(x):
    """Within 1e-4, from a generator that nobody can restart."""
    return x * (1 + 1e-4 * unseeded.random())


FAULTS = {
    "a counter in forward": (
        function(lambda ctx, x: x * counted("forward"), lambda ctx, g: g),
        "forward does not repeat",
    ),
    "a counter in backward": (
        doubled(lambda ctx, g: 2 * g * counted("backward")),
        "backward does not repeat",
    ),
    "a generator of its own": (
        function(lambda ctx, x: jitter(x), lambda ctx, g: g),
        "forward does not repeat",
    ),
    "a backward that draws": (
        doubled(lambda ctx, g: 2 * g * (1 + 1e-3 * torch.rand(g.shape))),
        "backward is random (rand), and forward is not",
    ),
    "a backward that draws from NumPy": (
        doubled(lambda ctx, g: 2 * g * np.random.rand()),
        "backward is random, and forward is not",
    ),
}


@each(FAULTS)
def test_it_is_broken(made):
    target, first_line = made
    status, words = asked("BP601", target, x)
    assert status is BROKEN
    assert first_line in words


def rounds_at_random(ctx, g):
    return 2 * g + 0 * torch.rand(g.shape)


RIGHT = {
    "torch's own": torch.tanh,
    "dropout": lambda x: functional.dropout(x, 0.5),
    "draws in vain": doubled(rounds_at_random),
    "noise from the seed": lambda x: x * random.random(),
    "draws in forward and backward": saving(
        lambda x: x * torch.rand(30), lambda g, x: g * torch.rand(30)
    ),
}


@each(RIGHT)
def test_it_holds(made):
    assert asked("BP601", made, x)[0] is HELD


def test_declared_noise_is_allowed_and_no_more():
    made = function(lambda ctx, x: jitter(x), lambda ctx, g: jitter(g))
    assert asked("BP601", made, x, noise=1e-3)[0] is HELD
    status, words = asked("BP601", made, x, noise=1e-7)
    assert status is BROKEN
    assert "the declared noise is 1e-07" in words


def test_what_forward_does_not_repeat_is_said_once():
    found = outcome("BP601", jitter, x)
    assert len(found.evidence) == 1
    assert found.evidence[0].numbers["elements_wrong"] == 30
    assert "all 30 elements differ" in found.words
