"""A suite in which a replay takes the process with it."""

import ctypes

import torch
from functions import Right

CALLS = []


class Fatal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        CALLS.append(1)
        if len(CALLS) > 1:
            ctypes.string_at(0)
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g


def test_fatal():
    Fatal.apply(torch.ones(3, dtype=torch.float64, requires_grad=True))


def test_right():
    Right.apply(torch.ones(3, dtype=torch.float64, requires_grad=True))
