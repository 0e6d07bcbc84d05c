"""What stands still beside x and jumps farther on: alone, beside others, at its edges."""

from __future__ import annotations

import pytest
import torch

import backproof

_LAWS = ["BP501", "BP101", "BP106"]


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


class Quantise(torch.autograd.Function):
    """A step size that is learned: piecewise constant in x, and not in the step."""

    @staticmethod
    def forward(ctx, x, step):
        ctx.save_for_backward(x, step)
        return (x / step).round().clamp(-8, 7) * step

    @staticmethod
    def backward(ctx, grad_output):
        x, step = ctx.saved_tensors
        scaled = x / step
        inside = (scaled >= -8) & (scaled <= 7)
        rounded = scaled.round().clamp(-8, 7)
        of_step = torch.where(inside, rounded - scaled, rounded)
        return grad_output * inside, (grad_output * of_step).sum().reshape(step.shape)


class Frozen(Quantise):
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None


class Weighted(torch.autograd.Function):
    """Piecewise constant in x, linear in weight, whose gradient may be wrong."""

    factor = 1

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x.round() * weight

    @classmethod
    def _of(cls, ctx, grad_output):
        x, weight = ctx.saved_tensors
        return grad_output * weight, cls.factor * grad_output * x.round()

    @staticmethod
    def backward(ctx, grad_output):
        return Weighted._of(ctx, grad_output)


class Doubled(Weighted):
    factor = 2

    @staticmethod
    def backward(ctx, grad_output):
        return Doubled._of(ctx, grad_output)


def inputs(seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    x = (3 * torch.randn(64, generator=generator)).to(dtype)
    return x.requires_grad_(), torch.tensor(0.3, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("zeros", [0, 1, 16, 63])
def test_zeros_at_the_edge_of_a_stair_do_not_hide_the_stairs(zeros, dtype):
    x = torch.randn(64, generator=torch.Generator().manual_seed(zeros)).to(dtype)
    x[:zeros] = 0
    report = backproof.check(Sign, x.requires_grad_(), laws=_LAWS)
    assert report.verdict == "surrogate"


@pytest.mark.parametrize("seed", [0, 1, 8, 13, 14])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_learned_step_is_a_surrogate(seed, dtype):
    report = backproof.check(Quantise, *inputs(seed, dtype), seed=seed, laws=_LAWS)
    assert report.verdict == "surrogate"
    (finding,) = report.findings
    assert "piecewise constant in `x`" in finding.title
    assert "the gradient of `step` is not forward's derivative either" in finding.words


@pytest.mark.parametrize("seed", range(4))
def test_steps_over_many_stairs_do_not_make_it_right(seed):
    """A coarse type inside has stairs as well, but lower ones."""
    x, step = inputs(0, torch.float32)
    report = backproof.check(Quantise, x, step.detach(), seed=seed, laws=_LAWS)
    assert report.verdict == "surrogate"


def test_no_gradient_for_the_step_is_a_mistake():
    report = backproof.check(Frozen, *inputs(0, torch.float32), laws=_LAWS)
    assert report.verdict == "wrong"
    assert "`step` needs a gradient and gets None" in report.findings[0].title


@pytest.mark.parametrize(
    ("function", "verdict"), [(Weighted, "surrogate"), (Doubled, "wrong")]
)
def test_a_smooth_input_beside_a_surrogate_is_judged(function, verdict):
    x, _ = inputs(0, torch.float32)
    weight = torch.randn(64, generator=torch.Generator().manual_seed(1))
    report = backproof.check(function, x, weight.requires_grad_(), laws=_LAWS)
    assert report.verdict == verdict
