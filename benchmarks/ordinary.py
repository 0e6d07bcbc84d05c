"""Thirty operators that everybody uses, with inputs of any size.

Each is a function of its inputs and a way to draw them, in float64, with about `n`
elements in the first; the caller chooses the precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional

Draw = Callable[[int, Generator], list[Tensor]]


@dataclass(frozen=True)
class Operator:
    """`function(*draw(n, generator))`; elementwise: output i reads element i alone."""

    name: str
    function: Callable[..., Any]
    draw: Draw
    elementwise: bool = True

    def inputs(self, n: int, dtype: torch.dtype, seed: int) -> list[Tensor]:
        """The inputs of about n elements for this seed, requiring gradients."""
        drawn = self.draw(n, torch.Generator().manual_seed(seed))
        return [t.to(dtype).requires_grad_() for t in drawn]


def normal(*shape: int) -> Draw:
    """Standard normal; -1 stands for whatever makes n elements."""

    def draw(n: int, generator: Generator) -> list[Tensor]:
        rest = 1
        for length in shape:
            rest *= length if length > 0 else 1
        full = [max(1, n // rest) if length < 0 else length for length in shape]
        return [torch.randn(full, generator=generator, dtype=torch.float64)]

    return draw


def positive(n: int, generator: Generator) -> list[Tensor]:
    """Uniform in [0.2, 3]."""
    return [0.2 + 2.8 * torch.rand(n, generator=generator, dtype=torch.float64)]


def together(*draws: Draw) -> Draw:
    """One input after the other, from one generator."""
    return lambda n, generator: [t for draw in draws for t in draw(n, generator)]


_row = normal(-1)
_rows = normal(-1, 10)
_image = normal(-1, 2, 8, 8)

OPERATORS = [
    Operator("gelu", functional.gelu, _row),
    Operator("silu", functional.silu, _row),
    Operator("mish", functional.mish, _row),
    Operator("elu", functional.elu, _row),
    Operator("softplus", functional.softplus, _row),
    Operator("sigmoid", torch.sigmoid, _row),
    Operator("logsigmoid", functional.logsigmoid, _row),
    Operator("tanh", torch.tanh, _row),
    Operator("erf", torch.erf, _row),
    Operator("exp", torch.exp, _row),
    Operator("sin", torch.sin, _row),
    Operator("cos", torch.cos, _row),
    Operator("square", torch.square, _row),
    Operator("log", torch.log, positive),
    Operator("sqrt", torch.sqrt, positive),
    Operator("rsqrt", torch.rsqrt, positive),
    Operator("multiply", torch.mul, together(_row, _row)),
    Operator("divide", torch.div, together(_row, positive)),
    Operator(
        "layer_norm", lambda x: functional.layer_norm(x, x.shape[-1:]), _rows, False
    ),
    Operator("softmax", lambda x: torch.softmax(x, -1), _rows, False),
    Operator("log_softmax", lambda x: torch.log_softmax(x, -1), _rows, False),
    Operator("logsumexp", lambda x: torch.logsumexp(x, -1), _rows, False),
    Operator("normalize", lambda x: functional.normalize(x, dim=-1), _rows, False),
    Operator("cumsum", lambda x: torch.cumsum(x, -1), _rows, False),
    Operator("matmul", torch.matmul, together(_rows, normal(10, 10)), False),
    Operator(
        "linear", functional.linear, together(_rows, normal(20, 10), normal(20)), False
    ),
    Operator(
        "conv1d", functional.conv1d, together(normal(-1, 2, 16), normal(3, 2, 3)), False
    ),
    Operator("conv2d", functional.conv2d, together(_image, normal(3, 2, 3, 3)), False),
    Operator("avg_pool2d", lambda x: functional.avg_pool2d(x, 2), _image, False),
    Operator("mse_loss", functional.mse_loss, together(_rows, _rows), False),
]

NAMED = {operator.name: operator for operator in OPERATORS}
