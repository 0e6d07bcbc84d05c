"""Eight forms in which a Function may be written that a plain context matrix leaves out.

    backproof check benchmarks/variants.py --contexts all

holds each against its own eager gradient in every context: right, or refused by name.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import backproof


def _x(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.double, generator=generator).requires_grad_()


class TwoOutputs(backproof.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x)
        return x.sin(), x.exp()

    @staticmethod
    def backward(ctx: Any, g: Tensor, h: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * x.cos() + h * x.exp()


class IndexOutput(backproof.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        values, places = x.max(dim=-1)
        ctx.save_for_backward(places)
        ctx.shape = x.shape
        ctx.mark_non_differentiable(places)
        return values, places

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Any) -> Tensor:
        (places,) = ctx.saved_tensors
        wide = places.unsqueeze(-1)
        return g.new_zeros(ctx.shape).scatter(-1, wide, g.unsqueeze(-1))


class SavedIntermediate(backproof.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x, s = ctx.saved_tensors
        return g * (s + x * s * (1 - s))


class SizeOnCtx(backproof.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.count = x.shape[-1]
        return x.square().sum(-1) / ctx.count

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g.unsqueeze(-1) * 2 * x / ctx.count


class NoneOutput(backproof.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, both: bool) -> tuple[Tensor, Tensor | None]:
        ctx.save_for_backward(x)
        return x.tanh(), x.sin() if both else None

    @staticmethod
    def backward(ctx: Any, g: Tensor, h: Tensor | None) -> Any:
        (x,) = ctx.saved_tensors
        gradient = g * (1 - x.tanh().square())
        return gradient if h is None else gradient + h * x.cos(), None


class InPlace(backproof.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.clone())
        ctx.mark_dirty(x)
        return x.sin_()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * x.cos()


class Containers(backproof.Function):
    @staticmethod
    def forward(
        ctx: Any, xs: list[Tensor], weights: dict[str, Tensor], *, scale: float = 1.0
    ) -> Tensor:
        ctx.save_for_backward(*xs, weights["w"])
        ctx.scale = scale
        return scale * weights["w"] * sum(x.square() for x in xs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        *xs, w = ctx.saved_tensors
        total = sum(x.square() for x in xs)
        return [g * ctx.scale * w * 2 * x for x in xs], {"w": g * ctx.scale * total}


class CallableArgument(backproof.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, function: Any) -> Tensor:
        ctx.save_for_backward(x)
        ctx.function = function
        return function(x) * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        if ctx.function is torch.sin:
            return g * (x.cos() * x + x.sin()), None
        raise ValueError("only sin has its derivative written down")


def in_place(x: Tensor) -> Tensor:
    return InPlace.apply(x * 1.5)  # no leaf may be changed in place


@backproof.inputs_for(TwoOutputs)
@backproof.inputs_for(SavedIntermediate)
@backproof.inputs_for(SizeOnCtx)
def one(seed: int = 0) -> tuple[Any, ...]:
    return (_x(seed, 4, 3),)


@backproof.inputs_for(IndexOutput)
def spread(seed: int = 0) -> tuple[Any, ...]:
    return (_x(seed, 4, 3),)


@backproof.inputs_for(NoneOutput)
def flagged(seed: int = 0) -> tuple[Any, ...]:
    return _x(seed, 4, 3), False


@backproof.inputs_for(in_place)
def for_in_place(seed: int = 0) -> tuple[Any, ...]:
    return (_x(seed, 4, 3),)


@backproof.inputs_for(Containers)
def nested(seed: int = 0) -> Any:
    return [_x(seed, 4, 3), _x(seed + 1, 4, 3)], {"w": _x(seed + 2, 3)}


@backproof.inputs_for(CallableArgument)
def called(seed: int = 0) -> tuple[Any, ...]:
    return _x(seed, 4, 3), torch.sin
