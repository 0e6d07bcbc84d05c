"""Type checkers see `apply` as forward without ctx, in both spellings."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from typing import Any

import torch
from torch import Tensor
from typing_extensions import assert_type

import backproof


class InContext(backproof.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float, name: str = "a") -> Tensor:
        return x * scale

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return g, None, None


class SetUp(backproof.Function):
    @staticmethod
    def forward(x: Tensor, w: Tensor) -> tuple[Tensor, int]:
        return x * w, 3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Any) -> Any:
        return g, g


def rounded(x: Tensor, step: float) -> Tensor:
    return x


x = torch.ones(2)
assert_type(InContext.apply(x, 2.0), Tensor)
assert_type(InContext.apply(x, scale=2.0, name="b"), Tensor)
assert_type(SetUp.apply(x, x), tuple[Tensor, int])
assert_type(backproof.surrogate(rounded, rounded)(x, step=0.5), Tensor)
InContext.apply(x, "two")  # wrong
InContext.apply(x)  # wrong
InContext.apply(x, 2.0, "a", 4)  # wrong
InContext.apply(x, 2.0, other=1)  # wrong
SetUp.apply(x, 3)  # wrong
SetUp.apply(x)  # wrong
SetUp.apply(None, x, x)  # wrong
backproof.surrogate(rounded, rounded)(x, "half")  # wrong
"""
WRONG = [
    k for k, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")
]


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def lines_of(output, pattern):
    return sorted({int(line) for line in re.findall(pattern, output)})


def test_mypy(program):
    cache = Path(__file__).parents[2] / ".mypy_cache"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            f"--cache-dir={cache}",
            str(program),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=program.parent,
    )
    assert lines_of(done.stdout, r"program\.py:(\d+): error") == WRONG, done.stdout


@pytest.mark.skipif(
    shutil.which("basedpyright") is None, reason="basedpyright is not installed"
)
def test_basedpyright(program):
    done = subprocess.run(
        [
            "basedpyright",
            "--level",
            "error",
            "--pythonpath",
            sys.executable,
            str(program),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=program.parent,
    )
    assert lines_of(done.stdout, r"program\.py:(\d+):\d+ - error") == WRONG, done.stdout
