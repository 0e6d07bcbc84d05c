"""Faults and right twins for BP508: values are right at the limits of the dtype."""

from __future__ import annotations

import torch
from planted.member import BFLOAT16, FLOAT16, FLOAT32, fault, normal, twin, uniform
from torch import nn
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


class _Softplus(Function):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.sigmoid(x)


@fault(normal(20, dtype=FLOAT32))
class NaiveSoftplus(_Softplus):
    """log(1 + exp(x)): infinite from 89 on."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.log(1 + x.exp())


class _Norm(Function):
    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g[:, None] * (x / y[:, None])


@fault(normal(6, 5, dtype=FLOAT16))
class SquaredNorm(_Norm):
    """The squares leave sixteen bits long before their root does."""

    @staticmethod
    def forward(ctx, x):
        y = (x * x).sum(-1).sqrt()
        ctx.save_for_backward(x, y)
        return y


class _Mean(Function):
    @staticmethod
    def backward(ctx, g):
        return g[..., None].expand(ctx.shape) / ctx.shape[-1]


@fault(normal(4, 64, dtype=FLOAT16))
class HalfMean(_Mean):
    """The sum does not fit sixteen bits, the mean would."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        total = x[..., 0]
        for k in range(1, x.shape[-1]):
            total = total + x[..., k]
        return total / x.shape[-1]


class _CrossEntropy(Function):
    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * (torch.sigmoid(x) - y), None


@fault(normal(12, dtype=FLOAT32), torch.tensor([0.0, 1.0] * 6))
class BinaryCrossEntropy(_CrossEntropy):
    """The logarithm of a probability that has become zero or one."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        p = torch.sigmoid(x)
        return -(y * p.log() + (1 - y) * (1 - p).log())


class _Tanh(Function):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g / torch.cosh(x.clamp(-300, 300)) ** 2


@fault(normal(15))
class QuotientOfExponentials(_Tanh):
    """inf / inf for arguments that tanh maps to one."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        up, down = x.exp(), (-x).exp()
        return (up - down) / (up + down)


@fault(uniform(3, 5, low=0.5, high=2, dtype=FLOAT32))
def geometric_mean(x):
    """The root of a product that has left the range."""
    return x.prod(-1) ** (1 / x.shape[-1])


@fault(normal(14, dtype=FLOAT16))
class HalfHypotenuse(Function):
    """Forward is careful, and backward squares in sixteen bits."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.hypot(x, torch.ones_like(x))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x / (1 + x * x).sqrt()


@fault(normal(10))
class SwishByExponentials(Function):
    """inf / inf in backward, and sigmoid in forward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        power = x.exp()
        gate = power / (1 + power)
        return g * gate * (1 + x * (1 - gate))


@fault(normal(5, 6, dtype=FLOAT32))
class Inversion(Function):
    """The fourth power of a norm, of which forward takes the second."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x / x.square().sum(-1, keepdim=True)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        square = x.square().sum(-1, keepdim=True)
        along = (g * x).sum(-1, keepdim=True)
        return (g * square - 2 * x * along) / square**2


# ------------------------------------------------------------------------------ twins


@twin(normal(20, dtype=FLOAT32))
class StableSoftplus(_Softplus):
    """The larger term is taken out."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0) + torch.log1p((-x.abs()).exp())


@twin(normal(6, 5))
class ScaledNorm(Function):
    """Divides by the largest before it squares."""

    @staticmethod
    def forward(ctx, x):
        largest = x.abs().amax(-1, keepdim=True)
        safe = torch.where(largest == 0, 1.0, largest)
        y = (x / safe).square().sum(-1, keepdim=True).sqrt() * largest
        y = y[:, 0]
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        size = torch.where(y == 0, 1.0, y)
        return g[:, None] * (x / size[:, None])


@twin(normal(10, dtype=FLOAT16))
class HonestSquare(Function):
    """Overflows because the square itself does not fit."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


@twin(normal(8))
class HonestExponential(Function):
    """Infinite where the exponential is out of range."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


@twin(normal(12, dtype=FLOAT32), torch.tensor([0.0, 1.0] * 6))
class CrossEntropyOfLogits(_CrossEntropy):
    """Never forms the probability."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return nn.functional.softplus(x) - x * y


@twin(normal(4, 64, dtype=BFLOAT16))
class WideMean(_Mean):
    """The sum is taken in float32."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.float().mean(-1).bfloat16()


@twin(normal(6, 7, dtype=FLOAT32))
class ShiftedSoftmax(Function):
    """The largest is taken off before the exponential."""

    @staticmethod
    def forward(ctx, x):
        powers = (x - x.amax(-1, keepdim=True)).exp()
        y = powers / powers.sum(-1, keepdim=True)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(-1, keepdim=True))
