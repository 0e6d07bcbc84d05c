"""The draw of directions and cotangents does not decide."""

import pytest
import torch

import backproof
from tests.battery.subjects import normal

SEEDS = range(12)


def scaled(function, derivative, factor=1.0):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return factor * g * derivative(x)

    return Scaled


def softmax(x):
    return torch.softmax(x.view(-1, 8), -1)


def single(x):
    """One element of the gradient is missing."""
    return torch.cat([x[:5].sin(), x[5:6].detach().sin(), x[6:].sin()])


SUBJECTS = {
    "sin": (torch.sin, "pass"),
    "softmax": (softmax, "pass"),
    "relu of a product": (lambda x: torch.relu(x[:, None] * x), "pass"),
    "norm": (lambda x: x.norm(), "pass"),
    "a Function": (scaled(torch.sin, torch.cos), "pass"),
    "a tenth too large": (scaled(torch.sin, torch.cos, 1.1), "wrong"),
    "negated": (scaled(torch.exp, torch.exp, -1.0), "wrong"),
    "a factor forgotten": (scaled(torch.square, lambda x: x), "wrong"),
    "one element missing": (single, "wrong"),
    "straight through": (scaled(torch.round, torch.ones_like), "surrogate"),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(("subject", "verdict"), SUBJECTS.values(), ids=SUBJECTS)
def test_verdicts_do_not_depend_on_the_seed(subject, verdict, dtype):
    x = normal(16, dtype=dtype)
    found = {backproof.check(subject, x, seed=seed).verdict.value for seed in SEEDS}
    assert found == {verdict}


@pytest.mark.parametrize("subject", ["sin", "softmax", "a tenth too large"])
def test_nor_in_bfloat16_from_some_hundred_elements_on(subject):
    function, verdict = SUBJECTS[subject]
    x = normal(512, dtype=torch.bfloat16)
    found = {backproof.check(function, x, seed=seed).verdict.value for seed in SEEDS}
    assert found == {verdict}


def test_the_same_seed_is_the_same_report():
    x = normal(16)
    one, again, other = (backproof.check(torch.sin, x, seed=s) for s in (3, 3, 4))
    assert one == again
    assert one != other
    assert one.environment["seed"] == 3
