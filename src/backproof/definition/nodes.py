"""Two nodes of a graph that the routes build with: themselves Functions of ours."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from backproof.definition.function import Function
from backproof.errors import NoDerivative


class Attach(Function):
    """The value of one tensor with the derivative of another.

    `value + (other - other.detach())` says the same, but rounds, and turns an infinite
    `other` into nan.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, other: Tensor) -> Tensor:
        """The value."""
        alone: Tensor = torch.ops.aten.detach.default(value)
        return alone

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[None, Tensor]:
        """All of it belongs to the other."""
        return None, cotangent


class Refuse(Function):
    """The first `count` of some tensors; differentiating them raises `message`."""

    @staticmethod
    def forward(
        ctx: Any, message: str, count: int, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        """The first `count`."""
        ctx.message = message
        return tuple(tensor.clone() for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        """Say what is missing."""
        raise NoDerivative(ctx.message)
