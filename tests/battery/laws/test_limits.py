"""BP508: nothing overflows or vanishes on the way to a number that fits."""

import pytest
import torch
from torch.nn import functional

from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    NOT_APPLICABLE,
    asked,
    each,
    outcome,
    saving,
)
from tests.battery.subjects import normal

x = normal(20)


def logsumexp(x):
    return x.exp().sum().log()


def softplus_slope(g, x):
    return g * x.exp() / (1 + x.exp())


def sign_by_powers(g, x):
    """1 or -1, by way of a fourth power."""
    return g * x**3 / (x**4).sqrt() / x.abs()


FAULTS = {
    "forward overflows": (logsumexp, "`output` is infinite, and the type can hold it"),
    "softplus by its definition": (
        lambda x: (1 + x.exp()).log(),
        "`output` is infinite",
    ),
    "backward alone overflows": (
        saving(functional.softplus, softplus_slope),
        "the gradient of `inputs[0]` is",
    ),
}


@each(FAULTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_it_is_broken(made, dtype):
    target, first_line = made
    status, words = asked("BP508", target, normal(20, dtype=dtype))
    assert status is BROKEN
    assert first_line in words
    assert "an intermediate overflows" in words


def test_what_vanishes_is_seen_beside_float64():
    made = saving(lambda x: x.abs().sum(), sign_by_powers)
    status, words = asked("BP508", made, normal(20, dtype=torch.float32))
    assert status is BROKEN
    assert "with inputs times 2^-38 the gradient of `inputs[0]` is infinite" in words
    assert "in float64" in words


RIGHT = {
    "the largest taken out": lambda x: torch.logsumexp(x, 0),
    "torch's softplus": functional.softplus,
    "a value that overflows itself": torch.exp,
    "a value that vanishes itself": lambda x: torch.exp(-x.square()),
    "a saturated slope": torch.tanh,
    "slopes that cancel": lambda x: torch.softmax(x, -1),
    "a cube": lambda x: x**3,
    "by a power of its size": lambda x: x / x.norm(),
}


@each(RIGHT)
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str
)
def test_it_holds(made, dtype):
    status, words = asked("BP508", made, normal(20, dtype=dtype))
    assert status is HELD, words


@pytest.mark.parametrize("n", [3, 200, 1500])
def test_a_softmax_of_any_length_cancels(n):
    status, words = asked("BP508", lambda x: torch.softmax(x, -1), normal(n))
    assert status is HELD, words


def test_in_float64_itself_backward_is_finite_where_forward_is():
    found = outcome("BP508", saving(functional.softplus, softplus_slope), x)
    broken = {e.numbers["scale"]: e.words for e in found.evidence if e.holds is False}
    assert "is nan or inf\nforward is finite there" in broken["inputs times 2^64"]


@pytest.mark.parametrize("dtype", [torch.complex128, torch.complex64], ids=str)
def test_a_complex_number_fits_only_as_a_whole(dtype):
    random = torch.Generator().manual_seed(0)
    z = torch.randn(8, generator=random, dtype=dtype).requires_grad_()
    status, words = asked("BP508", lambda z: z.sin().abs(), z)
    assert status is HELD, words


def test_the_numbers_name_the_scale():
    (evidence,) = [e for e in outcome("BP508", logsumexp, x).evidence if not e.holds]
    assert evidence.numbers["scale"] == "inputs times 2^7 in float32"
    assert evidence.numbers["elements_wrong"] == 1


def test_inputs_that_are_far_out_already_are_where_they_are_meant_to_be():
    far = (1e9 * normal(5).detach()).requires_grad_()
    status, words = asked("BP508", torch.sin, far)
    assert status is NOT_APPLICABLE
    assert words == "it does not run at other scales"


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (torch.nn.Dropout(), {}),
        (
            saving(torch.round, lambda g, x: g),
            {"expect_backward": lambda g, x: g},
        ),
    ],
    ids=["random", "declared"],
)
def test_random_and_declared_ones_are_not_asked(target, options):
    status, words = asked("BP508", target, x, **options)
    assert status is NOT_APPLICABLE
    assert words == "forward is random, or its gradient is declared"
