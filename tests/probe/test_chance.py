"""Random numbers of the probe's own."""

import random

import numpy as np
import pytest
import torch

from backproof.probe import signed, signs, spread, stream


def test_equal_seeds_are_one_stream_and_neighbours_are_not():
    one, again = signed(stream(3, 1), 1000), signed(stream(3, 1), 1000)
    assert torch.equal(one, again)
    for other in (stream(3, 2), stream(4, 1), stream(1, 3), stream(3)):
        other_draw = signed(other, 1000)
        assert abs(float(torch.corrcoef(torch.stack([one, other_draw]))[0, 1])) < 0.15


def test_global_states_are_left_alone():
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy())
    signs(stream(0), 100)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.array_equal(np.random.get_state()[1], before[2])


def test_draws_are_signed_and_uniform():
    draw = signed(stream(5), 100_000)
    assert draw.dtype == torch.float64
    assert -1 <= float(draw.min()) < -0.99
    assert 0.99 < float(draw.max()) < 1
    assert float(draw.mean()) == pytest.approx(0, abs=0.02)


def test_magnitudes_keep_away_from_zero():
    magnitude = spread(signed(stream(6), 100_000))
    assert 0.6 <= float(magnitude.min()) < 0.61
    assert 1.39 < float(magnitude.max()) <= 1.4
    assert float(magnitude.mean()) == pytest.approx(1, abs=0.01)


def test_signs_are_signs():
    drawn = signs(stream(7), 10_000)
    assert set(drawn.tolist()) == {1.0, -1.0}
    assert abs(float(drawn.mean())) < 0.05
