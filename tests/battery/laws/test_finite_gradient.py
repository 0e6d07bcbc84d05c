"""BP109: nan and inf come from backward's own doing, or from the edge of a domain."""

import torch

from tests.battery.laws.asking import BROKEN, HELD, asked, function, outcome
from tests.battery.subjects import normal


def at(*numbers):
    return torch.tensor(numbers, dtype=torch.float64).requires_grad_()


def test_finite_is_finite():
    assert asked("BP109", torch.sin, normal(9))[0] is HELD


def test_a_nan_where_forward_is_smooth_is_placed():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x * x / x

    found = outcome("BP109", function(forward, backward), at(1.0, 0.0, 3.0, 0.0))
    assert found.status is BROKEN
    assert "2 of 4 elements of `x`" in found.words
    assert "x[1], where `x` is 0" in found.words
    assert found.evidence[0].numbers == {"elements of x": 2}


def test_an_edge_of_the_domain_is_no_fault():
    for forward in (torch.sqrt, torch.log1p, lambda x: x.norm()):
        numbers = (-1.0, 0.0) if forward is torch.log1p else (0.0, 0.0)
        found = outcome("BP109", forward, at(*numbers))
        assert found.status is HELD, forward


def test_the_rest_is_still_checked():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sqrt(x)

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g / torch.sqrt(x)  # the half is missing

    made = function(forward, backward)
    assert asked("BP109", made, at(0.0, 1.0, 2.0))[0] is HELD
    assert asked("BP101", made, at(0.0, 1.0, 2.0))[0] is BROKEN
