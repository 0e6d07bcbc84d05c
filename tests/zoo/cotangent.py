"""BP104: backward is not linear in its cotangents, or does not use each of them."""

import torch
from torch.autograd import Function

from tests.zoo.healthy import SineAndCosine, Tanh
from tests.zoo.member import FINE, guilty, normal


@guilty("BP104", normal(64))
class SizeOfTheCotangent(Tanh):
    @staticmethod
    def backward(ctx, g):
        return Tanh.backward(ctx, g.abs())


@guilty("BP104", normal(64))
class ClampedCotangent(Tanh):
    @staticmethod
    def backward(ctx, g):
        return Tanh.backward(ctx, g.clamp(0, 1))


@guilty("BP104", normal(64))
class SignOfTheCotangent(Tanh):
    @staticmethod
    def backward(ctx, g):
        return Tanh.backward(ctx, g.sign())


@guilty("BP104", normal(64), dtypes=FINE)
class CubedCotangent(Tanh):
    @staticmethod
    def backward(ctx, g):
        return Tanh.backward(ctx, g**3)


@guilty("BP104", normal(64))
class IgnoredCotangent(Tanh):
    @staticmethod
    def backward(ctx, g):
        return Tanh.backward(ctx, torch.ones_like(g))


@guilty("BP104", normal(64))
class AddedConstant(Tanh):
    @staticmethod
    def backward(ctx, g):
        return Tanh.backward(ctx, g + 3)


@guilty("BP104", normal(64), dtypes=FINE)
class ClippedByNorm(Tanh):
    """Homogeneous above the bound, and still not linear."""

    @staticmethod
    def backward(ctx, g):
        return Tanh.backward(ctx, g / g.norm().clamp(min=1e-6))


@guilty("BP104", normal(64), dtypes=FINE)
class SignTimesNorm(Tanh):
    """Keeps every factor, also a negative one; two cotangents do not add up."""

    @staticmethod
    def backward(ctx, g):
        return Tanh.backward(ctx, g.sign() * g.norm() / 8)


@guilty("BP104", normal(32))
class CrossTerm(SineAndCosine):
    @staticmethod
    def backward(ctx, g_sine, g_cosine):
        (x,) = ctx.saved_tensors
        return SineAndCosine.backward(ctx, g_sine, g_cosine) + g_sine * g_cosine * x


@guilty("BP104", normal(32))
class OnlyTogether(SineAndCosine):
    """Right when both outputs are used, silent when only one is."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return SineAndCosine.forward(ctx, x)

    @staticmethod
    def backward(ctx, g_sine, g_cosine):
        if g_sine is None or g_cosine is None:
            return None
        return SineAndCosine.backward(ctx, g_sine, g_cosine)


@guilty("BP506", normal(32))
class RaisesForOneOutput(SineAndCosine):
    """Cotangents are not materialised, and None is not expected."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return SineAndCosine.forward(ctx, x)


@guilty("BP101", normal(32))
class DroppedOutput(SineAndCosine):
    """Linear in both cotangents; the second counts nothing."""

    @staticmethod
    def backward(ctx, g_sine, g_cosine):
        return SineAndCosine.backward(ctx, g_sine, torch.zeros_like(g_sine))


@guilty("BP104", normal(5, 4), normal(4), dtypes=FINE)
class DroppedWhenAlone(Function):
    """The mean's cotangent is lost when nobody uses the first output."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w, x.mean(0)

    @staticmethod
    def backward(ctx, g, g_mean):
        x, w = ctx.saved_tensors
        through_mean = g_mean / len(x) if bool(g.any()) else 0 * g_mean
        return g * w + through_mean, (g * x).sum(0)
