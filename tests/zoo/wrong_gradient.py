"""BP101: backward is not the derivative."""

import torch
from torch import nn
from torch.autograd import Function

from tests.zoo.healthy import Affine, Product, Softmax, Tanh, Wave
from tests.zoo.member import (
    FINE,
    FLOAT64,
    fixed,
    guilty,
    integers,
    normal,
    phases,
    values,
)


@guilty("BP101", normal(64))
class Doubled(Tanh):
    @staticmethod
    def backward(ctx, g):
        return 2 * Tanh.backward(ctx, g)


@guilty("BP101", normal(64), dtypes=FINE)
class OnePercentTooLarge(Tanh):
    @staticmethod
    def backward(ctx, g):
        return 1.01 * Tanh.backward(ctx, g)


@guilty("BP101", normal(64), dtypes=(FLOAT64,))
class OneInAMillionTooLarge(Tanh):
    @staticmethod
    def backward(ctx, g):
        return (1 + 1e-6) * Tanh.backward(ctx, g)


@guilty("BP101", normal(64))
class Negated(Wave):
    @staticmethod
    def backward(ctx, g):
        return -Wave.backward(ctx, g)


@guilty("BP101", normal(64))
class MissingTerm(Wave):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * torch.cos(x)


@guilty("BP101", normal(64))
class ForgottenFactor(Tanh):
    """As if it were a straight-through op."""

    @staticmethod
    def backward(ctx, g):
        return g.clone()


@guilty("BP101", normal(16, 8), normal(8, 8), normal(8))
class Transposed(Affine):
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.mT, g.mT @ x, g.sum(0)


@guilty("BP101", normal(16, 8), normal(8, 8), normal(8))
class TransposedWeight(Affine):
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, x.mT @ g, g.sum(0)


@guilty("BP101", normal(16, 8), normal(8, 8), normal(8))
class AveragedBias(Affine):
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, g.mT @ x, g.mean(0)


@guilty("BP101", normal(16, 8), normal(8, 8), normal(8))
class WeakInputWrong(Affine):
    """The bias hardly counts beside a weight that is a thousand times larger."""

    @staticmethod
    def forward(ctx, x, w, b):
        return Affine.forward(ctx, 100 * x, w, b)

    @staticmethod
    def backward(ctx, g):
        of_x, of_w, of_b = Affine.backward(ctx, g)
        return 100 * of_x, of_w, 2 * of_b


@guilty("BP101", normal(40), normal(40))
class SwappedInputs(Product):
    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * x, g * y


@guilty("BP101", normal(40), normal(40))
class ZeroForOneInput(Product):
    @staticmethod
    def backward(ctx, g):
        _, y = ctx.saved_tensors
        return g * y, torch.zeros_like(y)


@guilty("BP101", normal(8, 10))
class NormalisationIgnored(Softmax):
    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


@guilty("BP101", normal(8, 10))
class SummedOverTheWrongAxis(Softmax):
    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(0, keepdim=True))


class _OneElement(Tanh):
    at = 7

    @classmethod
    def spoilt(cls, ctx, g):
        gradient = Tanh.backward(ctx, g)
        gradient[cls.at] = 0
        return gradient


@guilty("BP101", normal(4096), dtypes=FINE)
class OneElementOfThousandsZero(_OneElement):
    @staticmethod
    def backward(ctx, g):
        return _OneElement.spoilt(ctx, g)


@guilty("BP101", normal(16))
class OneElementZero(_OneElement):
    @staticmethod
    def backward(ctx, g):
        return _OneElement.spoilt(ctx, g)


@guilty("BP101", normal(12), dtypes=FINE)
class OnePerMilleInOneElement(Tanh):
    @staticmethod
    def backward(ctx, g):
        gradient = Tanh.backward(ctx, g)
        gradient[3] *= 1.001 if g.dtype == torch.float64 else 1.05
        return gradient


@guilty("BP101", normal(64))
class WrongBelowZero(Function):
    """A leaky relu whose leak is forgotten."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, 0.25 * x)

    @staticmethod
    def backward(ctx, g):
        return g.clone()


@guilty("BP101", normal(64))
class WrongBeyondABound(Function):
    """Clamped forward, and the gradient goes on beyond the upper bound."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(-0.5, 0.5)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x > -0.5)


@guilty("BP101", integers(12, 9), dtypes=FINE)
class EveryTieTakesAll(Function):
    """The largest of each row; ties get the whole gradient each."""

    @staticmethod
    def forward(ctx, x):
        y = x.amax(-1, keepdim=True)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * (x == y)


@guilty("BP101", values(0.0, 1.0, -2.0, 3.0), dtypes=FINE)
class OutsideOfTheTwoSides(Function):
    """A relu with a slope of 2 at exactly zero."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.relu(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.where(x == 0, 2.0, (x > 0).to(g.dtype))


@guilty("BP101", phases(20), dtypes=FINE)
class ConjugateMissing(Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z * z

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return 2 * g * z


@guilty("BP101", normal(8, 16))
class StatisticsAreConstants(Function):
    """A layer norm without the terms of its mean and variance."""

    @staticmethod
    def forward(ctx, x):
        scale = torch.rsqrt(x.var(-1, correction=0, keepdim=True) + 1e-3)
        ctx.save_for_backward(scale)
        return (x - x.mean(-1, keepdim=True)) * scale

    @staticmethod
    def backward(ctx, g):
        (scale,) = ctx.saved_tensors
        return g * scale


@guilty("BP101", normal(6, 5), fixed(normal(6, 5)))
class ForgottenTwo(Function):
    @staticmethod
    def forward(ctx, x, target):
        ctx.save_for_backward(x - target)
        return (x - target).square().sum()

    @staticmethod
    def backward(ctx, g):
        (gap,) = ctx.saved_tensors
        return g * gap, None


@guilty("BP101", normal(100_000), dtypes=(FLOAT64,))
class SilentInAHundredThousand(Wave):
    @staticmethod
    def backward(ctx, g):
        return torch.zeros_like(g)


@guilty("BP101", normal(9, 4))
def half_of_a_product_detached(x):
    """What a detached copy of a parameter does, seen from an input."""
    return x.detach() * x


@guilty("BP101", normal(9, 4))
class PartlyDetached(nn.Module):
    """Its weight counts twice in forward and once in backward."""

    def __init__(self):
        super().__init__()
        random = torch.Generator().manual_seed(1)
        self.weight = nn.Parameter(torch.randn(6, 4, generator=random))

    def forward(self, x):
        return torch.tanh(x @ self.weight.mT) @ self.weight.detach()
