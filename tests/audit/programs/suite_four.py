"""A suite with one of each kind."""

import pytest
import torch
from functions import Noisy, Right, Rounded, Wrong


@pytest.fixture
def x():
    return torch.linspace(-2.1, 1.3, 6, dtype=torch.float64, requires_grad=True)


class TestAll:
    def test_right(self, x):
        Right.apply(x).sum().backward()

    def test_noisy(self, x):
        Noisy.apply(x).sum().backward()


def test_rounded(x):
    Rounded.apply(3 * x).sum().backward()


def test_wrong(x):
    Wrong.apply(x).sum().backward()
