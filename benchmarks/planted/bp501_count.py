"""Faults and right twins for BP501: one gradient for each input, in order."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, fixed, indices, normal, phases, twin
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


@fault(normal(5, 6, dtype=FLOAT32), normal(6, dtype=FLOAT32))
class GainForgotten(Function):
    """The gain of a fused norm gets no gradient."""

    @staticmethod
    def forward(ctx, x, gain):
        size = x.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(x / size, size, gain)
        return x / size * gain

    @staticmethod
    def backward(ctx, g):
        y, size, gain = ctx.saved_tensors
        of_y = g * gain
        return (of_y - y * (of_y * y).sum(-1, keepdim=True)) / size, None


@fault(normal(4, 5), 0.1, True, normal(5))
class OptionsForgotten(Function):
    """Two plain arguments were added to forward, and no None to backward."""

    @staticmethod
    def forward(ctx, x, slope, signed, bias):
        ctx.slope = -slope if signed else slope
        return x * ctx.slope + bias

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slope, g.sum(0)


@fault(normal(4, 5), 0.1, normal(5))
class OutOfOrder(Function):
    """None stands where the bias is, and the bias's gradient where the number is."""

    @staticmethod
    def forward(ctx, x, slope, bias):
        ctx.slope = slope
        return x * slope + bias

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slope, g.sum(0), None


class _Stacked(Function):
    @staticmethod
    def forward(ctx, *tensors):
        return torch.stack([(k + 1) * t for k, t in enumerate(tensors)])


@fault(normal(4), normal(4), normal(4))
class LastOfMany(_Stacked):
    """One gradient short of the number of tensors."""

    @staticmethod
    def backward(ctx, g):
        return tuple((k + 1) * g[k] for k in range(len(g) - 1))


class _Attention(Function):
    @staticmethod
    def forward(ctx, q, k, causal):
        ctx.save_for_backward(q, k)
        ctx.causal = causal
        scores = q @ k.mT
        return scores.tril() if causal else scores


@fault(normal(5, 3), normal(5, 3), True)
class NoneOnOnePath(_Attention):
    """One of the two paths returns early, without the keys."""

    @staticmethod
    def backward(ctx, g):
        q, k = ctx.saved_tensors
        if ctx.causal:
            return g.tril() @ k, None, None
        return g @ k, g.mT @ q, None


@fault(phases(6), normal(6))
class NothingForPhases(Function):
    """The complex input was taken for data."""

    @staticmethod
    def forward(ctx, z, w):
        ctx.save_for_backward(z, w)
        return z * w

    @staticmethod
    def backward(ctx, g):
        z, _ = ctx.saved_tensors
        return None, (g * z.conj()).real


# ------------------------------------------------------------------------------ twins


@twin(normal(4, 5), 0.1, True, normal(5))
class NonesBehind(Function):
    """More Nones than arguments at the end, which torch allows."""

    @staticmethod
    def forward(ctx, x, slope, signed, bias):
        ctx.slope = -slope if signed else slope
        return x * ctx.slope + bias

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slope, None, None, g.sum(0), None, None


@twin(normal(6, 3), indices(8, below=6), fixed(normal(8, 3)))
class TensorsWithoutGradient(Function):
    """None for tensors that need no gradient, integer and floating."""

    @staticmethod
    def forward(ctx, table, rows, offset):
        ctx.save_for_backward(rows)
        ctx.rows = len(table)
        return table[rows] + offset

    @staticmethod
    def backward(ctx, g):
        (rows,) = ctx.saved_tensors
        return g.new_zeros(ctx.rows, g.shape[1]).index_add(0, rows, g), None, None


@twin(normal(5, 4), normal(4, 3), None)
class OptionalBias(Function):
    """An argument that is None here."""

    @staticmethod
    def forward(ctx, x, w, bias):
        ctx.save_for_backward(x, w)
        ctx.has_bias = bias is not None
        y = x @ w
        return y + bias if ctx.has_bias else y

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.mT, x.mT @ g, g.sum(0) if ctx.has_bias else None


@twin(normal(4), normal(4), normal(4))
class Stacked(_Stacked):
    """As many gradients as there are tensors, made in a loop."""

    @staticmethod
    def backward(ctx, g):
        return tuple((k + 1) * row for k, row in enumerate(g.unbind()))


@twin(normal(5, 3), normal(5, 3), True)
class BothPaths(_Attention):
    """Two paths of backward, both complete."""

    @staticmethod
    def backward(ctx, g):
        q, k = ctx.saved_tensors
        if ctx.causal:
            g = g.tril()
        return g @ k, g.mT @ q, None


@twin(normal(7), fixed(normal(7)))
class ZerosForTheRest(Function):
    """A gradient that nobody asked for is more than needed, and not wrong."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, g * x


@twin(normal(9), normal(9))
class ConstantInOne(Function):
    """None for an input that forward does not depend on: its gradient is zero."""

    @staticmethod
    def forward(ctx, x, like):
        return x.reshape(like.shape) * 2

    @staticmethod
    def backward(ctx, g):
        return 2 * g, None
