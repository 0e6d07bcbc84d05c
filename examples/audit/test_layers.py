"""A test suite as people have it: it asks for shapes, and never for gradients.

pytest --backproof examples/audit/test_layers.py
"""

import pytest
import torch
from torch.autograd.function import once_differentiable


class Square(torch.autograd.Function):
    """Right."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * grad_output * x


class Project(torch.autograd.Function):
    """Wrong: the weight is square, so that nothing complains of the transpose."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        return grad_output @ weight, x.mT @ grad_output


class Sign(torch.autograd.Function):
    """A surrogate: straight through between -1 and 1."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (x.abs() <= 1)


class Dropout(torch.autograd.Function):
    """Right, and random: the mask is kept for backward."""

    @staticmethod
    def forward(ctx, x, keep):
        mask = torch.bernoulli(torch.full_like(x, keep)) / keep
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad_output):
        (mask,) = ctx.saved_tensors
        return grad_output * mask, None


@pytest.fixture
def x():
    return torch.randn(8, 4, requires_grad=True)


class TestShapes:
    def test_square(self, x):
        assert Square.apply(x).shape == x.shape

    def test_project(self, x):
        Project.apply(x, torch.randn(4, 4, requires_grad=True)).sum().backward()
        assert x.grad.shape == x.shape

    def test_sign(self, x):
        Sign.apply(x).sum().backward()
        assert x.grad.abs().max() <= 1


def test_dropout(x):
    assert Dropout.apply(x, 0.5).shape == x.shape
