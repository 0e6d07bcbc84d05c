"""What is known of a second derivative: eager mode's, where numerics do not refute it."""

import numpy as np
import torch
from torch.autograd import Function

from backproof.battery.survey.contraction import contracted
from backproof.battery.survey.manners import surroundings_kept
from backproof.battery.survey.scene import Scene
from backproof.battery.survey.second_order import SecondOrder
from backproof.subject import Case, subject_of
from backproof.trial import Trial
from tests.battery.contexts.drifting import Saved
from tests.battery.subjects import normal


def second_order(op, *inputs):
    return SecondOrder(Scene(Trial(subject_of(op), Case(inputs))))


def smooth(x, w):
    return torch.tanh(x * w) * x


class Staircase(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.round(4 * torch.tanh(x * w)) / 4

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        slope = 1 - torch.tanh(x * w) ** 2
        return g * slope * w, g * slope * x


class FromItsStairs(Function):
    """Its gradient reads the output, which moves in stairs."""

    @staticmethod
    def forward(ctx, x):
        y = torch.round(4 * torch.tanh(x)) / 4
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)


class Host(Function):
    """tanh(x w) outside of torch, which nobody marked once differentiable."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.from_numpy(np.tanh(x.detach().numpy() * w.detach().numpy()))

    @staticmethod
    def backward(ctx, g):
        x, w = (t.detach().numpy() for t in ctx.saved_tensors)
        slope = g.detach().numpy() * (1 - np.tanh(x * w) ** 2)
        return torch.from_numpy(slope * w), torch.from_numpy(slope * x)


INPUTS = normal(4), normal(4, seed=1)


def test_a_right_one_is_trusted_and_equals_the_hessian():
    second = second_order(smooth, *INPUTS)
    assert second.trusted
    scene, tangents = second.scene, second.tangents
    with surroundings_kept():
        objective = scene.along(second.loss, tangents, scene.plain())
        truth = torch.func.hessian(objective)(scene.coordinates(len(tangents)))
    assert torch.allclose(second.hessian().value, truth, rtol=1e-10)


def test_numerics_agree_with_it_within_their_bar():
    second = second_order(smooth, *INPUTS)
    r, d = second.scene.tangents(1), second.scene.tangents(2)
    product = second.product(second.scene.loss.linear, r)
    claimed = float(contracted([k.value for k in product], d))
    numeric = second.numeric(r, d)
    assert abs(claimed - numeric.value) <= numeric.bar
    assert numeric.bar < 1e-6 * numeric.scale


def test_numerics_run_in_float64_where_the_subject_does():
    inputs = [x.detach().float().requires_grad_() for x in INPUTS]
    second = second_order(smooth, *inputs)
    numeric = second.numeric(second.scene.tangents(1), second.scene.tangents(2))
    assert numeric.bar < 1e-6 * numeric.scale


def test_a_saved_intermediate_is_refuted():
    second = second_order(Saved.apply, *INPUTS)
    assert not second.refusal
    assert "in eager mode's own double backward" in second.refuted
    assert not second.trusted


def test_a_surrogate_is_believed():
    assert second_order(Staircase.apply, *INPUTS).trusted
    assert second_order(FromItsStairs.apply, normal(4)).trusted


def test_one_that_eager_mode_refuses_is_numeric():
    second = second_order(Host.apply, *INPUTS)
    assert "does not require grad" in second.refusal
    right = second_order(lambda x, w: torch.tanh(x * w), *INPUTS)
    expected = right.numeric(right.tangents[0], right.tangents[1]).value
    assert abs(float(second.hessian().value[0, 1]) - expected) < 1e-6
    assert second.loss.curvatures == ()
