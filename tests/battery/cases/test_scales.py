"""The same call, tiny, huge, and where exp leaves the range."""

import math

import pytest
import torch

from backproof.battery.cases import scales
from backproof.probe import Domain
from tests.battery.cases.trials import tensors_of, trial_of
from tests.battery.subjects import normal

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def exponents(dtype, size=1.0):
    x = (size * normal(20).detach()).to(dtype).requires_grad_()
    return [v.words for v in scales(trial_of(torch.sin, x))]


EXPECTED = {
    torch.float64: ["2^-64", "2^64", "2^7 in float32"],
    torch.float32: ["2^-38", "2^38", "2^7"],
    torch.bfloat16: ["2^-38", "2^38", "2^7"],
    torch.float16: ["2^-12", "2^12", "2^4"],
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_three_scales_of_each_type(dtype):
    assert exponents(dtype) == [f"inputs times {e}" for e in EXPECTED[dtype]]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_inputs_are_scaled_by_powers_of_two(dtype):
    x, other = normal(20, dtype=dtype), normal(20, dtype=dtype, grad=False, seed=1)
    for variant in scales(trial_of(torch.mul, x, other)):
        new, same = tensors_of(variant.trial)
        exponent = int(variant.words.split("2^")[1].split()[0])
        assert torch.equal(
            new.detach().double(), (x.double() * 2.0**exponent).to(new.dtype).double()
        )
        assert torch.equal(same.double(), other.to(same.dtype).double())
        assert new.requires_grad
        assert bool(torch.isfinite(new).all())
        assert bool((new != 0).all())


@pytest.mark.parametrize("dtype", FLOATS[:3], ids=str)
def test_a_cube_of_all_stays_in_range(dtype):
    info, x = torch.finfo(dtype), normal(20, dtype=dtype)
    for variant in scales(trial_of(torch.sin, x)):
        (new,) = tensors_of(variant.trial)
        if new.dtype == dtype:
            size = new.detach().double().abs()
            assert float(size.max()) ** 3 < info.max
            assert float(size.median()) ** 3 > info.tiny


def test_exp_leaves_the_range_at_the_last():
    *_, last = scales(trial_of(torch.sin, normal(20, dtype=torch.float32)))
    (x,) = tensors_of(last.trial)
    assert math.isinf(float(torch.exp(x.detach().max())))
    assert float(x.detach().abs().max()) < 1e4


def test_inputs_that_are_far_out_are_left():
    assert exponents(torch.float64, 1e6) == []
    assert exponents(torch.float64, 1e-6) == []
    assert exponents(torch.float64, 100.0) != []


def test_inputs_with_a_domain_are_left():
    x = normal(5).detach().abs().requires_grad_()
    domains = {"x": Domain(low=0.0)}
    assert list(scales(trial_of(lambda x: x.log(), x, domains=domains))) == []


def test_modules_are_not_narrowed():
    trial = trial_of(torch.nn.Linear(4, 3).double(), normal(2, 4))
    assert len(list(scales(trial))) == 2
