"""Files to check, and the command line to check them with."""

import textwrap

import pytest
from click.testing import CliRunner

from backproof.cli import main

SQUARE = """
import torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x

op = Square.apply

def inputs(seed=0):
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(5, generator=gen).double().requires_grad_()
"""
WRONG = SQUARE.replace("return 2 * g * x", "return 3 * g * x")
NO_INPUTS = SQUARE.partition("def inputs")[0]


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes files into an empty folder that is the working directory."""
    monkeypatch.chdir(tmp_path)

    def write_file(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write_file


@pytest.fixture
def files(write):
    """right.py, wrong.py and bare.py, which has no inputs; returns their texts."""
    write("right.py", SQUARE)
    write("wrong.py", WRONG)
    write("bare.py", NO_INPUTS)
    return {"right": SQUARE, "wrong": WRONG, "bare": NO_INPUTS}


@pytest.fixture
def backproof():
    """Runs the command line in this process: `.exit_code`, `.stdout`, `.stderr`."""
    return lambda *arguments: CliRunner().invoke(
        main, [str(a) for a in arguments], prog_name="backproof"
    )
