"""Where backward leaves autograd's sight."""

import pytest
import torch

from backproof.battery.cut import cuts
from backproof.battery.place import Places
from backproof.subject import Case, subject_of
from backproof.trial import Trial
from tests.battery.subjects import normal


class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        size = x.shape
        slope = x.cos()
        y = x.sin()
        ctx.size = size
        ctx.save_for_backward(x, y, slope)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.saved_tensors[2]


class Detached(Kept):
    @staticmethod
    def backward(ctx, grad_output):
        x, _, _ = ctx.saved_tensors
        return grad_output * x.detach().cos()


class Data(Kept):
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.data * ctx.saved_tensors[0].cos()


class Blocked(Kept):
    @staticmethod
    def backward(ctx, grad_output):
        with torch.no_grad():
            return grad_output * ctx.saved_tensors[0].cos()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Detached, "`x.detach()` in backward"),
        (Data, "`grad_output.data` in backward"),
        (Blocked, "`with torch.no_grad()` in backward"),
        (Kept, "`slope` is an intermediate of forward"),
    ],
)
def test_cuts(target, words):
    found = next(cuts(Places(Trial(subject_of(target), Case((normal(3),))))))
    assert found.words.startswith(words)
    assert "@once_differentiable" in found.remedy


def test_what_is_saved_as_it_is_cuts_nothing():
    told = [c.words for c in cuts(Places(Trial(subject_of(Kept), Case((normal(3),)))))]
    assert len(told) == 1  # neither x nor y nor the size
