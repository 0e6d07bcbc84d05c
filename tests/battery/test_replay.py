"""Random numbers are the same at every call."""

import random

import numpy as np
import pytest
import torch
from torch.nn import functional

import backproof
from tests.battery.referee import REFEREE
from tests.battery.subjects import normal

DTYPES = (torch.float64, torch.float32, torch.bfloat16)


class FusedDropout(torch.autograd.Function):
    """Keeps its mask."""

    @staticmethod
    def forward(ctx, x):
        mask = torch.rand(x.shape) < 0.7
        ctx.save_for_backward(mask)
        return x * mask / 0.7

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return g * mask / 0.7


class ForgottenMask(FusedDropout):
    """Draws a new mask in backward."""

    @staticmethod
    def backward(ctx, g):
        torch.rand(1)
        return g * (torch.rand(g.shape) < 0.7) / 0.7


class RecomputedMask(FusedDropout):
    """Draws the same mask again, from the state that it kept."""

    @staticmethod
    def forward(ctx, x):
        ctx.state = torch.get_rng_state()
        return FusedDropout.forward(ctx, x)

    @staticmethod
    def backward(ctx, g):
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.state)
        mask = torch.rand(g.shape) < 0.7
        torch.set_rng_state(now)
        return g * mask / 0.7


def numpys_legacy(x):
    return x * torch.from_numpy(np.random.rand(x.numel())).to(x.dtype)


def pythons(x):
    return x * random.random()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "subject",
    [
        FusedDropout,
        RecomputedMask,
        numpys_legacy,
        pythons,
        lambda x: functional.dropout(x, 0.5),
        torch.nn.Dropout(0.5),
    ],
    ids=["mask kept", "mask drawn again", "numpy", "python", "functional", "module"],
)
def test_a_random_function_passes(subject, dtype):
    assert backproof.check(subject, normal(300, dtype=dtype)).verdict == "pass"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_another_mask_in_backward_is_wrong(dtype):
    report = backproof.check(ForgottenMask, normal(300, dtype=dtype))
    assert report.verdict == "wrong"


def test_each_call_draws_the_same_numbers():
    values = []

    def forward(x):
        values.append(float(torch.rand(())) + random.random() + np.random.rand())
        return x * values[-1]

    report = backproof.check(forward, normal(5), laws=REFEREE)
    assert report.verdict == "pass"
    assert len(values) >= 15
    assert len(set(values)) == 1


def test_the_seed_chooses_the_numbers():
    values = {}

    def forward(x):
        values.setdefault(float(torch.rand(())))
        return x.sin()

    for seed in (0, 1, 1):
        backproof.check(forward, normal(5), seed=seed, laws=REFEREE)
    assert len(values) == 2


def test_randomness_that_cannot_be_replayed_is_said_to_be():
    generator = np.random.default_rng(0)

    def forward(x):
        return x * torch.from_numpy(generator.random(x.numel()))

    report = backproof.check(forward, normal(20), laws=REFEREE)
    assert report.verdict == "inconclusive"
    words = report.subjects[0].outcome("BP101").words
    assert "differ" in words
    assert "global generators" in words
    assert [f.code for f in backproof.check(forward, normal(20)).findings] == ["BP601"]
