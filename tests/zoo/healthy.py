"""Correct Functions, which the guilty inherit and spoil: each must pass itself."""

import torch
from torch.autograd import Function

from tests.zoo.member import innocent, normal


@innocent(normal(64))
class Tanh(Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * (1 - y * y)


@innocent(normal(64))
class Wave(Function):
    """x sin x."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sin(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (torch.sin(x) + x * torch.cos(x))


@innocent(normal(16, 8), normal(8, 8), normal(8))
class Affine(Function):
    """x wᵀ + b, for a square w."""

    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return x @ w.mT + b

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, g.mT @ x, g.sum(0)


@innocent(normal(40), normal(40))
class Product(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x


@innocent(normal(8, 10))
class Softmax(Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(-1, keepdim=True))


@innocent(normal(32))
class SineAndCosine(Function):
    """Two outputs."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x), torch.cos(x)

    @staticmethod
    def backward(ctx, g_sine, g_cosine):
        (x,) = ctx.saved_tensors
        return g_sine * torch.cos(x) - g_cosine * torch.sin(x)
