"""The gate of gates.py with arguments of every kind that a call may have."""

from dataclasses import dataclass
from typing import NamedTuple

import torch

import backproof
from tests.definition.gates import STEEP, STYLES, hard, pulled, soft

STEPS = torch.tensor(4.0, dtype=torch.float64)


class Pair(NamedTuple):
    x: torch.Tensor
    w: torch.Tensor


class OfList(backproof.Function):
    @staticmethod
    def forward(ctx, given):
        ctx.save_for_backward(*given)
        return hard(*given)

    @staticmethod
    def backward(ctx, g):
        return (list(pulled(g, *ctx.saved_tensors)),)


class OfPair(OfList):
    @staticmethod
    def backward(ctx, g):
        return (Pair(*pulled(g, *ctx.saved_tensors)),)


class OfDict(backproof.Function):
    @staticmethod
    def forward(ctx, given, *, w, power=2):
        ctx.save_for_backward(given["x"], w)
        ctx.power = power
        return hard(given["x"], w**power)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        of_x, of_power = pulled(g, x, w**ctx.power)
        return {"x": of_x}, of_power * ctx.power * w ** (ctx.power - 1), None


class Mixed(backproof.Function):
    @staticmethod
    def forward(ctx, flag, x, mode, steep, w, nothing=None, where=...):
        ctx.save_for_backward(x, w)
        ctx.given = (flag, mode, steep, nothing, where)
        return hard(x, w)

    @staticmethod
    def backward(ctx, g):
        assert ctx.given == (True, "soft", STEEP, None, ...)
        of_x, of_w = pulled(g, *ctx.saved_tensors)
        return None, of_x, None, None, of_w, None, None


class WithCallable(backproof.Function):
    @staticmethod
    def forward(ctx, rule, x, w):
        ctx.save_for_backward(x, w)
        ctx.rule = rule
        return torch.round(4 * w * x * rule(STEEP * x)) / 4

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return None, *pulled(g, x, w, ctx.rule(STEEP * x))


@dataclass(frozen=True)
class Settings:
    steep: float


SETTINGS = Settings(STEEP)


class WithDataclass(backproof.Function):
    @staticmethod
    def forward(ctx, settings, x, w):
        ctx.save_for_backward(x, w)
        ctx.settings = settings
        return hard(x, w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return None, *pulled(g, x, w, torch.sigmoid(ctx.settings.steep * x))


class WithConstants(backproof.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w, STEPS)
        ctx.steps = STEPS
        return torch.round(STEPS * soft(x, w)) / STEPS

    @staticmethod
    def backward(ctx, g):
        x, w, steps = ctx.saved_tensors
        of_x, of_w = pulled(g * steps, x, w)
        return of_x / ctx.steps, of_w / STEPS


class WithNumber(backproof.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x * ctx.k, None


ARGUMENTS = {
    "list": lambda x, w: OfList.apply([x, w]),
    "named tuple": lambda x, w: OfPair.apply(Pair(x, w)),
    "dict and keywords": lambda x, w: OfDict.apply({"x": x}, power=1, w=w),
    "mixed arguments": lambda x, w: Mixed.apply(True, x, "soft", STEEP, w, where=...),
    "callable": lambda x, w: WithCallable.apply(torch.sigmoid, x, w),
    "dataclass": lambda x, w: WithDataclass.apply(SETTINGS, x, w),
    "constants": WithConstants.apply,
}
GATES = {**STYLES, **ARGUMENTS}
