"""BP108: a note on the side that backward took."""

import pytest
import torch

from tests.battery.laws.asking import (
    BROKEN,
    HELD,
    NOT_APPLICABLE,
    asked,
    function,
    outcome,
)


def relu(slope_at_zero):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.relu(x)

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.where(x == 0, slope_at_zero, (x > 0).to(g.dtype))

    return function(forward, backward)


x = torch.tensor([0.0, 1.0, -2.0, 3.0, -1.0, 0.5]).double().requires_grad_()
smooth = torch.tensor([0.7, 1.0, -2.0]).double().requires_grad_()


@pytest.mark.parametrize("slope", [0.0, 0.25, 1.0])
def test_between_the_sides_is_a_note(slope):
    found = outcome("BP108", relu(slope), x)
    assert found.status is HELD
    assert "1 of 6 outputs sit on a kink" in found.words
    assert found.evidence[0].numbers == {"at_a_kink": 1, "outputs": 6}
    assert outcome("BP101", relu(slope), x).status is HELD


@pytest.mark.parametrize("slope", [-0.5, 1.5, 10.0])
def test_outside_of_the_sides_breaks_the_gradient_law(slope):
    status, words = asked("BP101", relu(slope), x)
    assert status is BROKEN
    assert "outside of the one-sided derivatives" in words


@pytest.mark.parametrize("zeros", [2, 3, 5])
def test_outside_of_the_sides_at_several_kinks(zeros):
    values = [0.0] * zeros + [1.0, -2.0, 3.0, 0.5, 2.5]
    several = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    assert asked("BP101", relu(2.0), several)[0] is BROKEN
    assert asked("BP101", relu(0.5), several)[0] is HELD


def test_away_from_kinks_there_is_nothing_to_say():
    assert asked("BP108", relu(0.0), smooth)[0] is NOT_APPLICABLE


def test_ties_that_move_together_are_checked():
    ties = torch.tensor([[2.0, 2.0, 1.0], [0.0, 3.0, 3.0]]).double().requires_grad_()

    def largest(share):
        def forward(ctx, x):
            y = x.amax(-1, keepdim=True)
            ctx.save_for_backward(x == y)
            return y

        def backward(ctx, g):
            (at,) = ctx.saved_tensors
            return g * at / (at.sum(-1, keepdim=True) if share else 1)

        return function(forward, backward)

    assert asked("BP101", largest(share=True), ties)[0] is HELD
    status, words = asked("BP101", largest(share=False), ties)
    assert status is BROKEN
    assert "ties" in words
