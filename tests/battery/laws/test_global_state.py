"""BP602: what does not belong to the call is left alone."""

import os
import random

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.battery.laws.asking import BROKEN, HELD, asked, doubled, each, function
from tests.battery.subjects import normal

x = normal(6)


@pytest.fixture(autouse=True)
def _settings_as_before():
    """What the referee leaves to its caller, who is asked to look at the finding."""
    folder = os.getcwd()  # noqa: PTH109
    yield
    os.chdir(folder)
    torch.autograd.set_detect_anomaly(False)
    torch.set_float32_matmul_precision("highest")


def forward_of(disturb):
    def forward(ctx, x):
        disturb()
        return 2 * x

    return function(forward, lambda ctx, g: 2 * g)


def backward_of(disturb):
    def backward(ctx, g):
        disturb()
        return 2 * g

    return doubled(backward)


def writes_grad(ctx, g):
    ctx.x.grad = 2 * g
    return 2 * g


def keeps_its_leaf(ctx, x):
    ctx.x = x
    return 2 * x


FAULTS = {
    "the seed in forward": (
        forward_of(lambda: torch.manual_seed(0)),
        "forward sets the seed of torch",
    ),
    "the seed in backward": (
        backward_of(lambda: torch.manual_seed(0)),
        "backward sets the seed of torch",
    ),
    "NumPy's seed": (
        forward_of(lambda: np.random.seed(0)),
        "forward sets the seed of NumPy",
    ),
    "Python's seed": (
        backward_of(lambda: random.seed(0)),
        "backward sets the seed of Python's random",
    ),
    "the default type": (
        forward_of(lambda: torch.set_default_dtype(torch.float64)),
        "torch.get_default_dtype() is torch.float64",
    ),
    "threads": (
        backward_of(lambda: torch.set_num_threads(torch.get_num_threads() + 1)),
        "torch.get_num_threads()",
    ),
    "recording": (
        lambda x: (torch.set_grad_enabled(True), 2 * x)[1],
        "torch.is_grad_enabled() is True, was False",
    ),
    "the working folder": (forward_of(lambda: os.chdir("/")), "the working folder"),
    "precision": (
        forward_of(lambda: torch.set_float32_matmul_precision("medium")),
        "torch.get_float32_matmul_precision() is medium",
    ),
    "anomaly detection": (
        forward_of(lambda: torch.autograd.set_detect_anomaly(True)),
        "torch.is_anomaly_enabled()",
    ),
    ".grad": (function(keeps_its_leaf, writes_grad), "writes `x.grad` itself"),
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@each(FAULTS)
def test_it_is_broken(made):
    target, words = made
    status, told = asked("BP602", target, x)
    assert status is BROKEN
    assert words in told


def forks():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        torch.rand(3)


def sets_and_restores():
    was = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.set_default_dtype(was)


RIGHT = {
    "draws": lambda x: functional.dropout(x, 0.5) * random.random(),
    "a seed of its own": forward_of(forks),
    "set and put back": backward_of(sets_and_restores),
    "torch's own": torch.sin,
}


@each(RIGHT)
def test_it_holds(made):
    status, words = asked("BP602", made, x)
    assert status is HELD, words
