"""A suite that checks by itself."""

import pytest
import torch
from functions import Right, Wrong


@pytest.fixture
def x():
    return torch.linspace(-1, 1, 64, requires_grad=True)


def test_right(backproof_check, x):
    assert backproof_check(Right, x).verdict == "pass"


@pytest.mark.backproof(dtypes=("float64", "bfloat16"), devices="cpu")
def test_marked(backproof_check, x):
    backproof_check(Right, x)


def test_wrong(backproof_check, x):
    backproof_check(Wrong, x)


@pytest.mark.backproof(dtypes="int64")
def test_no_type(backproof_check):
    pass
