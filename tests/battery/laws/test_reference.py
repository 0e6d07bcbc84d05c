"""BP111: forward and gradient are the reference's, block by block."""

import pytest
import torch

import backproof
from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    NOT_APPLICABLE,
    asked,
    each,
    function,
    outcome,
    saving,
)
from tests.battery.subjects import normal

x = normal(40)


def sine(claimed=torch.cos, value=torch.sin):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return value(x)

    return function(forward, lambda ctx, g: g * claimed(*ctx.saved_tensors))


FAULTS = {
    "forward and backward off alike": (
        sine(lambda x: torch.cos(x) + 1e-3, lambda x: torch.sin(x) + 1e-3 * x),
        "forward's `output` is not the reference's",
    ),
    "the gradient": (
        sine(lambda x: torch.cos(x) * 1.001),
        "the gradient of `x` is not the reference's",
    ),
    "no gradient": (
        function(lambda ctx, x: torch.sin(x), lambda ctx, g: None),
        "the gradient of `x` is not the reference's",
    ),
    "another form": (
        sine(value=lambda x: torch.sin(x).sum(), claimed=torch.cos),
        "forward's outputs do not have the reference's form",
    ),
}


@each(FAULTS)
def test_it_is_broken(made):
    target, first_line = made
    status, words = asked("BP111", target, x, reference=torch.sin)
    assert status is BROKEN
    assert first_line in words


def test_a_pass_without_a_reference_says_that_forward_was_not_judged():
    shifted, _ = FAULTS["forward and backward off alike"]
    status, words = asked("BP111", shifted, x)
    assert status is NOT_APPLICABLE
    assert words == "there is no reference: forward itself was not judged"
    assert "Forward itself was not judged" in str(backproof.check(shifted, x))


RIGHT = {
    "the same": sine(),
    "by another way": sine(value=lambda x: -torch.cos(x + torch.pi / 2)),
    "itself": torch.sin,
}


@each(RIGHT)
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str
)
def test_it_holds(made, dtype):
    status, words = asked("BP111", made, normal(40, dtype=dtype), reference=torch.sin)
    assert status is HELD, words


def exactly(value, slope):
    """Both in float64, and rounded once."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return value(x.double()).to(x.dtype)

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g * slope(x.double())).to(x.dtype)

    return function(forward, backward)


def test_the_truth_is_the_references_float64():
    small = (0.01 * normal(40)).detach().to(torch.bfloat16).requires_grad_()
    made = exactly(torch.expm1, torch.exp)
    status, words = asked("BP111", made, small, reference=lambda x: x.exp() - 1)
    assert status is HELD, words


def test_16_elements_of_a_million_are_named_by_their_block():
    def backward(g, x):
        gradient = g * torch.cos(x)
        gradient[500_000:500_016] = 0
        return gradient

    many = normal(1_000_000, dtype=torch.bfloat16)
    found = outcome("BP111", saving(torch.sin, backward), many, reference=torch.sin)
    assert found.status is BROKEN
    wrong = found.evidence[1]
    assert wrong.numbers["elements_wrong"] == 16
    assert wrong.numbers["first"] == 500_000
    assert wrong.numbers["blocks"] == [500_000 // 8192]
    assert "in elements [499712:507904] (blocks of 8192)" in found.words
    assert "[500010] the subject gives" in found.words
    assert "inputs[0][500000:500016]" in found.words


def test_a_reference_without_a_float64_is_asked_in_the_inputs_type():
    def only_float32(x):
        if x.dtype is not torch.float32:
            raise TypeError("float32 only")
        return torch.sin(x)

    given = normal(40, dtype=torch.float32)
    assert asked("BP111", sine(), given, reference=only_float32)[0] is HELD
    doubled = sine(value=lambda x: 2 * torch.sin(x))
    assert asked("BP111", doubled, given, reference=only_float32)[0] is BROKEN


def test_a_reference_whose_backward_raises_decides_forward_alone():
    raising = function(lambda ctx, x: torch.sin(x), lambda ctx, g: 1 / 0)
    found = outcome("BP111", sine(), x, reference=raising.apply)
    assert [e.holds for e in found.evidence] == [True, None]
    assert "the reference's own backward raises" in found.words


def test_a_declared_gradient_is_not_the_references():
    made = function(lambda ctx, x: torch.round(x), lambda ctx, g: g)
    options = {"reference": torch.round, "expect_backward": lambda g, x: g}
    found = outcome("BP111", made, x, **options)
    assert found.status is HELD
    assert len(found.evidence) == 1
