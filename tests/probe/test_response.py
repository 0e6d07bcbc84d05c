"""What each output does along the lines."""

import math

import numpy as np
import pytest
import torch

from tests.probe.climbing import Climbed
from tests.probe.points import DTYPES, IDS

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=IDS)
ORDINARY = torch.linspace(0.5, 2.5, 64).tolist()


def jump(x):
    return torch.where(x > 1.0, 1.0, 0.0) + x / 8


@each_dtype
def test_smooth_outputs_are_smooth(dtype):
    response = Climbed(lambda x: x * torch.exp(-x), ORDINARY, dtype).response
    assert bool(response.usable.all())
    assert bool(response.moves.all())
    assert not bool(response.rough.any())
    assert not bool(response.kinked.any())
    assert not response.not_smooth
    assert bool(response.smooth.all())


@each_dtype
def test_kinks_are_marked(dtype):
    values = [0.0, 1.0, -1.0, 0.0, *ORDINARY]
    response = Climbed(torch.relu, values, dtype).response
    assert response.kinked[:4].tolist() == [True, False, False, True]
    assert not bool(response.kinked[4:].any())
    assert response.aside[:4].tolist() == [True, False, False, True]
    assert bool(torch.equal(response.smooth, ~response.kinked))


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=IDS[:3])
def test_jumps_are_rough(dtype):
    # The element that a rung takes over the jump lies just below it.
    near = 1 - 2 * {torch.float64: 4e-6, torch.float32: 1e-3}.get(dtype, 1 / 64)
    climbed = Climbed(jump, [near, *ORDINARY], dtype)
    response = climbed.response
    assert bool(response.rough[0])
    assert bool(response.aside[0])
    assert not bool(response.smooth[0])
    far = climbed.point.values > 1.2
    assert not bool(response.rough[far].any())


@each_dtype
def test_what_stands_still_does_not_move(dtype):
    def forward(x):
        return torch.cat([x, torch.ones_like(x), torch.round(x * 0)])

    response = Climbed(forward, ORDINARY, dtype).response
    n = len(ORDINARY)
    assert bool(response.moves[:n].all())
    assert not bool(response.moves[n:].any())
    assert bool(response.usable.all())


@each_dtype
def test_a_rung_out_of_the_domain_is_not_usable(dtype):
    def forward(x):
        return torch.where(x <= 2, x, math.nan)

    response = Climbed(forward, [2.0], dtype).response
    assert response.usable.tolist() == [False]
    assert response.moves.tolist() == [False]


def test_outputs_that_are_not_finite_at_x_are_not_usable():
    def forward(x):
        return torch.log(x)

    response = Climbed(forward, [-1.0, 2.0, -3.0, 4.0]).response
    assert response.usable.tolist() == [False, True, False, True]
    assert response.smooth.tolist() == [False, True, False, True]


def test_when_most_outputs_kink_nothing_is_set_aside():
    response = Climbed(torch.abs, [0.0] * 50).response
    assert response.not_smooth
    assert bool(response.smooth.all())


def test_a_few_kinks_do_not_make_it_rough():
    response = Climbed(torch.abs, [0.0] * 3 + ORDINARY).response
    assert not response.not_smooth
    assert int(response.smooth.sum()) == len(ORDINARY)


@pytest.mark.parametrize("size", [1e-12, 1e-10, 1e-8])
def test_noise_is_measured(size):
    random = np.random.default_rng(0)

    def forward(x):
        return x * x + torch.from_numpy(size * random.standard_normal(len(x)))

    response = Climbed(forward, torch.linspace(1, 2, 500).tolist()).response
    found = float(response.noise.median())
    assert size / 2 < found < 2 * size
    assert response.grain == pytest.approx(size / 0.3 / 3, rel=2)
    assert not response.not_smooth


def test_rounding_alone_is_the_prior():
    response = Climbed(torch.exp, ORDINARY).response
    assert response.crowd < 3
    assert response.grain < 2 * response.precision.eps


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (torch.float64, torch.float32),
        (torch.float32, torch.float16),
        (torch.float32, torch.bfloat16),
    ],
    ids=str,
)
def test_a_coarser_type_inside_shows_as_grain(outer, inner):
    values = torch.linspace(1, 2, 400).tolist()
    response = Climbed(lambda x: x.to(inner).sin().to(outer), values, outer).response
    eps = torch.finfo(inner).eps
    assert eps / 8 < response.grain < 4 * eps


@pytest.mark.parametrize("wave", [1e5, 3e5, 1e7])
def test_waves_shorter_than_the_steps_are_jagged(wave):
    assert Climbed(lambda x: torch.sin(wave * x), ORDINARY).response.jag > 0.25
    assert Climbed(torch.sin, ORDINARY).response.jag < 1e-6


def test_scatter_is_added():
    scatter = torch.full((len(ORDINARY),), 1e-6).double()
    response = Climbed(torch.exp, ORDINARY, scatter=scatter**2).response
    assert response.noise.tolist() == pytest.approx([1e-6] * len(ORDINARY), rel=1e-6)


def test_a_coarser_output_has_a_coarser_prior():
    coarse = torch.ones(len(ORDINARY)).double()
    coarse[::2] = 2.0**29
    plain = Climbed(lambda x: x * 1.5, ORDINARY).response
    other = Climbed(lambda x: x * 1.5, ORDINARY, coarseness=coarse).response
    ratio = other.scale / plain.scale
    assert torch.equal(ratio, coarse)


def test_scale_is_the_larger_of_value_and_change():
    def forward(x):
        return torch.cat([x + 1000, 1000 * (x - x.detach().round())])

    response = Climbed(forward, [1.0]).response
    assert response.scale[0] == pytest.approx(1001, rel=1e-3)
    assert response.scale[1] == pytest.approx(1000, rel=0.5)


def test_weights_are_relative_to_each_output():
    sizes = torch.tensor([1e-6, 1.0, 1e6]).double()

    def forward(x):
        return sizes.to(x.dtype) * x

    floor = torch.zeros(3, dtype=torch.float64)
    response = Climbed(forward, [1.0, 1.0, 1.0], floor=floor).response
    shares = response.weights() / sizes
    assert float(shares.max() / shares.min()) < 1.5


def test_an_output_far_below_its_floor_weighs_what_its_rounding_deserves():
    sizes = torch.tensor([1e-6, 1.0]).double()
    floor = torch.ones(2, dtype=torch.float64)
    response = Climbed(lambda x: sizes * x, [1.0, 1.0], floor=floor).response
    assert float(response.noise[0]) >= 0.3 * response.precision.eps
    shares = response.weights() / sizes
    assert float(shares[0]) > 1e4 * float(shares[1])


def test_each_group_has_its_own_noise():
    def forward(x):
        return torch.cat([x.exp(), x.float().exp().double()])

    n = len(ORDINARY)
    both = [slice(0, n), slice(n, 2 * n)]
    apart = Climbed(forward, ORDINARY, groups=both).response
    assert apart.groups == tuple(both)
    exact, coarse = (float(apart.noise[part].median()) for part in both)
    assert coarse > 1e6 * exact
    assert apart.grain > 1e-8


def test_a_noisy_output_weighs_less():
    random = np.random.default_rng(1)

    def forward(x):
        y = x * x
        y[0] += 1e-6 * random.standard_normal()
        return y

    response = Climbed(forward, [1.0] * 20).response
    weights = response.weights()
    assert float(weights[0]) > 1e4 * float(weights[1:].max())


def test_in_16_bits_an_output_that_hardly_responds_weighs_less():
    def forward(x):
        return torch.cat([x, x / 1000 + 1])

    response = Climbed(forward, [1.0] * 20, torch.float16).response
    weights = response.weights()
    assert float(weights[20:].min()) > 3 * float(weights[:20].max())
