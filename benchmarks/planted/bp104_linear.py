"""Faults and right twins for BP104: backward is linear in its cotangents."""

from __future__ import annotations

import torch
from planted.member import BFLOAT16, FLOAT32, fault, fixed, indices, normal, twin
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# ----------------------------------------------------------------------------- faults


class _Softplus(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return nn.functional.softplus(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.sigmoid(x)


@fault(normal(32, dtype=FLOAT32))
class ClippedByNorm(_Softplus):
    """Clips the gradient to norm one, where an optimiser's hook should."""

    @staticmethod
    def backward(ctx, g):
        return _Softplus.backward(ctx, g / g.norm().clamp(min=1))


@fault(normal(24))
class EightBits(_Softplus):
    """The cotangent is sent in eight bits, as for a slow network."""

    @staticmethod
    def backward(ctx, g):
        step = g.abs().max() / 7
        return _Softplus.backward(ctx, (g / step).round() * step)


@fault(normal(9, 6, dtype=FLOAT32), indices(9, below=6))
class FusedCrossEntropy(Function):
    """The gradient is made in forward, and the incoming one is taken to be one."""

    @staticmethod
    def forward(ctx, logits, labels):
        chances = torch.log_softmax(logits, -1)
        truth = nn.functional.one_hot(labels, logits.shape[-1])
        ctx.save_for_backward((chances.exp() - truth) / len(labels))
        return -(chances * truth).sum() / len(labels)

    @staticmethod
    def backward(ctx, g):
        (of_logits,) = ctx.saved_tensors
        return of_logits, None


class _Polar(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return torch.hypot(x, y), torch.atan2(y, x)

    @staticmethod
    def backward(ctx, of_radius, of_angle):
        x, y = ctx.saved_tensors
        radius = torch.hypot(x, y)
        return (
            (of_radius * x - of_angle * y / radius) / radius,
            (of_radius * y + of_angle * x / radius) / radius,
        )


@fault(normal(10), normal(10))
class UnusedFirst(_Polar):
    """Skips everything when the first cotangent is zero, and the second is not."""

    @staticmethod
    def backward(ctx, of_radius, of_angle):
        if not of_radius.any():
            return torch.zeros_like(of_radius), torch.zeros_like(of_radius)
        return _Polar.backward(ctx, of_radius, of_angle)


@fault(normal(10), normal(10))
class CoupledOutputs(_Polar):
    """A product of the two cotangents, from a chain rule applied twice."""

    @staticmethod
    def backward(ctx, of_radius, of_angle):
        of_x, of_y = _Polar.backward(ctx, of_radius, of_angle)
        return of_x, of_y + of_radius * of_angle


@fault(normal(5, 4), normal(4, 4))
class DecayedWeight(Function):
    """Weight decay inside of backward: affine, not linear."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.mT, x.mT @ g + 0.02 * w


@fault(normal(40, 8, dtype=BFLOAT16))
class Standardised(_Softplus):
    """Gradients are brought to unit spread, "so that training is stable"."""

    @staticmethod
    def backward(ctx, g):
        return _Softplus.backward(ctx, g / (g.float().std() + 1e-6).bfloat16())


# ------------------------------------------------------------------------------ twins


@twin(normal(9, 6, dtype=FLOAT32), indices(9, below=6))
class FusedCrossEntropyScaled(FusedCrossEntropy):
    """The gradient is made in forward, and multiplied by the incoming one."""

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (of_logits,) = ctx.saved_tensors
        return g * of_logits, None


@twin(normal(24, dtype=FLOAT32))
class ScaledToRange(_Softplus):
    """Divides by the largest cotangent, and multiplies by it again."""

    @staticmethod
    def backward(ctx, g):
        if not g.any():
            return torch.zeros_like(g)
        largest = g.abs().max()
        return _Softplus.backward(ctx, g / largest) * largest


@twin(normal(10), normal(10))
class NothingToDo(_Polar):
    """Skips everything when both cotangents are zero."""

    @staticmethod
    def backward(ctx, of_radius, of_angle):
        if not (of_radius.any() or of_angle.any()):
            return torch.zeros_like(of_radius), torch.zeros_like(of_radius)
        return _Polar.backward(ctx, of_radius, of_angle)


@twin(normal(12))
class PositiveAndNegative(_Softplus):
    """Each sign of the cotangent goes its own way, and the two are added."""

    @staticmethod
    def backward(ctx, g):
        up, down = g.clamp(min=0), g.clamp(max=0)
        return _Softplus.backward(ctx, up) + _Softplus.backward(ctx, down)


@twin(normal(10), normal(10))
class PerhapsNone(_Polar):
    """Cotangents that may be None, and branches on it."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return _Polar.forward(ctx, x, y)

    @staticmethod
    def backward(ctx, of_radius, of_angle):
        if of_radius is None and of_angle is None:
            return None, None
        missing = torch.zeros_like(of_angle if of_radius is None else of_radius)
        return _Polar.backward(
            ctx,
            missing if of_radius is None else of_radius,
            missing if of_angle is None else of_angle,
        )


@twin(normal(33, 17, dtype=BFLOAT16))
class WideAndBack(_Softplus):
    """The cotangent goes through float32; the last rounding is not linear."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g.float() * torch.sigmoid(x.float())).bfloat16()


@twin(
    normal(16),
    expect_backward=lambda g, x: (-g.clamp(-0.5, 0.5),),
)
class ReversedAndClipped(Function):
    """Meant so, and declared."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return -g.clamp(-0.5, 0.5)


@twin(normal(6, 5), fixed(normal(6)))
class RowsOfNoWeight(Function):
    """Rows are chosen by a mask of the input, not of the cotangent."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(weight.clamp(min=0))
        return x * weight.clamp(min=0)[:, None]

    @staticmethod
    def backward(ctx, g):
        (weight,) = ctx.saved_tensors
        rows = weight.nonzero()[:, 0]
        of_x = torch.zeros_like(g)
        of_x[rows] = g[rows] * weight[rows, None]
        return of_x, None
