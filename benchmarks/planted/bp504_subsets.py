"""Faults and right twins for BP504: it does not matter which inputs need a gradient."""

from __future__ import annotations

import torch
from planted.member import BFLOAT16, FLOAT32, fault, indices, normal, twin, uniform
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


class _Linear(Function):
    @staticmethod
    def forward(ctx, x, w, bias):
        ctx.save_for_backward(x, w)
        return x @ w.mT + bias


@fault(normal(5, 4), normal(3, 4), normal(3))
class OffByOne(_Linear):
    """Reads the flag of the input before."""

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        needs = ctx.needs_input_grad
        of_x = g @ w if needs[0] else None
        of_w = g.mT @ x if needs[0] else None
        of_bias = g.sum(0) if needs[1] else None
        return of_x, of_w, of_bias


@fault(normal(5, 4, dtype=FLOAT32), normal(3, 4, dtype=FLOAT32))
class FrozenInput(Function):
    """Without a gradient for x there is nothing to do, somebody thought."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.relu(x @ w.mT)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        if not ctx.needs_input_grad[0]:
            return None, None
        g = g * (x @ w.mT > 0)
        return g @ w, g.mT @ x


@fault(normal(6, 5), normal(5), normal(5))
class SharedSum(Function):
    """What both parameters need is only computed for one of them."""

    @staticmethod
    def forward(ctx, x, gain, bias):
        ctx.save_for_backward(x, gain)
        return x * gain + bias

    @staticmethod
    def backward(ctx, g):
        x, gain = ctx.saved_tensors
        total = torch.zeros_like(gain)
        if ctx.needs_input_grad[1]:
            total = g.sum(0)
        of_gain = (g * x).sum(0) if ctx.needs_input_grad[1] else None
        return g * gain, of_gain, total


@fault(uniform(8, low=0.5, high=2), uniform(8, low=0.5, high=2))
class SavedForOne(Function):
    """Saves what the gradient of the exponent needs, by the flag of the base."""

    @staticmethod
    def forward(ctx, base, exponent):
        y = base**exponent
        ctx.save_for_backward(base, exponent, y)
        ctx.log = base.log() if ctx.needs_input_grad[0] else torch.ones_like(base)
        return y

    @staticmethod
    def backward(ctx, g):
        base, exponent, y = ctx.saved_tensors
        return g * exponent * y / base, g * y * ctx.log


@fault(normal(7, 3), normal(7, 3), normal(3))
class DroppedFromTheTuple(Function):
    """Gradients that nobody needs are left out, and the others move up."""

    @staticmethod
    def forward(ctx, x, y, w):
        ctx.save_for_backward(x, y, w)
        return x * w - y * w

    @staticmethod
    def backward(ctx, g):
        x, y, w = ctx.saved_tensors
        all_of_them = (g * w, -g * w, (g * (x - y)).sum(0))
        needed = [
            t for t, need in zip(all_of_them, ctx.needs_input_grad, strict=True) if need
        ]
        return (*needed, *[None] * (3 - len(needed)))


# ------------------------------------------------------------------------------ twins


@twin(normal(5, 4), normal(3, 4), normal(3))
class EachItsOwn(_Linear):
    """Three flags for three gradients."""

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return (
            g @ w if needs[0] else None,
            g.mT @ x if needs[1] else None,
            g.sum(0) if needs[2] else None,
        )


@twin(uniform(8, low=0.5, high=2), uniform(8, low=0.5, high=2))
class SavedAsNeeded(Function):
    """Saves as little as it can, by the right flags."""

    @staticmethod
    def forward(ctx, base, exponent):
        y = base**exponent
        of_base, of_exponent = ctx.needs_input_grad
        ctx.save_for_backward(
            base if of_base or of_exponent else None,
            exponent if of_base else None,
            y,
        )
        return y

    @staticmethod
    def backward(ctx, g):
        base, exponent, y = ctx.saved_tensors
        of_base = g * exponent * y / base if ctx.needs_input_grad[0] else None
        of_exponent = g * y * base.log() if ctx.needs_input_grad[1] else None
        return of_base, of_exponent


@twin(normal(6, 5, dtype=FLOAT32), normal(5, dtype=FLOAT32), normal(5, dtype=FLOAT32))
class SharedIfEither(Function):
    """A sum that two gradients share, computed if either is needed."""

    @staticmethod
    def forward(ctx, x, gain, shift):
        ctx.save_for_backward(x, gain, shift)
        return (x + shift) * gain

    @staticmethod
    def backward(ctx, g):
        x, gain, shift = ctx.saved_tensors
        of_gain = of_shift = None
        if any(ctx.needs_input_grad[1:]):
            total = g.sum(0)
            of_gain = (g * x).sum(0) + shift * total
            of_shift = gain * total
        return g * gain, of_gain, of_shift


@twin(normal(4, 6, dtype=BFLOAT16), normal(6, dtype=BFLOAT16))
class IgnoresFlags(Function):
    """Computes everything always: wasteful, and right."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, (g.float() * x.float()).sum(0).bfloat16()


@twin(normal(5, 4), normal(4, 4))
class OtherRouteIfAlone(Function):
    """Another order of the same products where only one gradient is needed."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        if not ctx.needs_input_grad[1]:
            return g @ (w @ w).mT, None
        inner = g @ w.mT
        of_x = inner @ w.mT if ctx.needs_input_grad[0] else None
        return of_x, x.mT @ inner + (x @ w).mT @ g


@twin(normal(6, 3), indices(5, below=6), normal(5, 3))
class IntegerBetween(Function):
    """An integer in the middle, whose flag is never set."""

    @staticmethod
    def forward(ctx, table, rows, scale):
        ctx.save_for_backward(table, rows, scale)
        return table[rows] * scale

    @staticmethod
    def backward(ctx, g):
        table, rows, scale = ctx.saved_tensors
        of_table = of_scale = None
        if ctx.needs_input_grad[0]:
            of_table = torch.zeros_like(table).index_add(0, rows, g * scale)
        if ctx.needs_input_grad[2]:
            of_scale = g * table[rows]
        return of_table, None, of_scale
