"""Backward returns the cotangent as it came."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, normal, plain, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional


class Softsign(Function):
    @staticmethod
    def forward(ctx, x):
        return x / (1 + x.abs())

    @staticmethod
    def backward(ctx, grad):
        return grad.clone()


class ExponentialLessOne(Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.expm1(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad


class Elu(Function):
    """Both branches of backward are the first."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, torch.expm1(x))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, grad, grad * 1.0)


class Compress(Function):
    """Large values logarithmically."""

    @staticmethod
    def forward(ctx, x, knee):
        return torch.where(x > knee, knee + torch.log1p(x - knee), x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class AddScaled(Function):
    @staticmethod
    def forward(ctx, a, b, alpha):
        return torch.add(a, b, alpha=alpha)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad.clone(), None


class Rotate(Function):
    """By a square matrix, which is taken for the identity."""

    @staticmethod
    def forward(ctx, x, basis):
        ctx.save_for_backward(basis)
        return x @ basis

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class CumulativeSum(Function):
    @staticmethod
    def forward(ctx, x):
        return x.cumsum(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Flip(Function):
    @staticmethod
    def forward(ctx, x):
        return x.flip(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Normalise(Function):
    @staticmethod
    def forward(ctx, x):
        return x / x.norm(dim=-1, keepdim=True)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Smooth(Function):
    """A blur that is not blurred back."""

    @staticmethod
    def forward(ctx, signal, taps):
        ctx.save_for_backward(taps)
        return functional.conv1d(signal, taps[None, None], padding=len(taps) // 2)

    @staticmethod
    def backward(ctx, grad):
        return grad.clone(), None


class Power(Function):
    @staticmethod
    def forward(ctx, x, exponent):
        ctx.exponent = exponent
        return x**exponent

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class LogitColumn(Function):
    """Coordinates stay, the confidence in column 4 is squashed; backward sees columns."""

    @staticmethod
    def forward(ctx, boxes):
        y = boxes.clone()
        y[:, 4] = torch.sigmoid(boxes[:, 4])
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad


def _column_four(boxes):
    mask = torch.zeros_like(boxes, dtype=torch.bool)
    mask[:, 4] = True
    return mask


FAULTS = [
    Fault(
        "softsign_identity",
        ("passed_through",),
        Softsign,
        drawn(normal(3, 4, 5, 6)),
        "x",
        everywhere(0),
        functional.softsign,
    ),
    Fault(
        "exponential_less_one_identity",
        ("passed_through", "factor"),
        ExponentialLessOne,
        drawn(normal(1000, 600)),
        "x",
        everywhere(0),
        torch.expm1,
    ),
    Fault(
        "elu_both_branches_alike",
        ("passed_through", "factor"),
        Elu,
        drawn(normal(17, 29)),
        "x",
        lambda x: x < 0,
        functional.elu,
    ),
    Fault(
        "compression_beyond_the_knee",
        ("passed_through",),
        Compress,
        drawn(normal(150_000), 0.8),
        "x",
        lambda x, knee: x > knee,
        lambda x, knee: torch.minimum(x, knee + (x - knee).relu().log1p()),
    ),
    Fault(
        "add_scaled_alpha_forgotten",
        ("passed_through", "scaled"),
        AddScaled,
        drawn(normal(31), normal(31), 0.3),
        "b",
        everywhere(1),
        lambda a, b, alpha: a + alpha * b,
    ),
    Fault(
        "rotation_not_turned_back",
        ("passed_through",),
        Rotate,
        drawn(normal(9, 5), plain(normal(5, 5))),
        "x",
        everywhere(0),
        torch.matmul,
    ),
    Fault(
        "cumulative_sum_identity",
        ("passed_through",),
        CumulativeSum,
        drawn(normal(6, 20)),
        "x",
        # The last sum of one cotangent is that cotangent.
        lambda x: (torch.arange(20) < 19).expand(x.shape),
        lambda x: x.cumsum(-1),
    ),
    Fault(
        "flip_not_turned_back",
        ("passed_through", "transposed"),
        Flip,
        drawn(normal(4, 3, 10)),
        "x",
        everywhere(0),
        lambda x: x[..., torch.arange(9, -1, -1)],
    ),
    Fault(
        "normalise_identity",
        ("passed_through",),
        Normalise,
        drawn(normal(12, 8)),
        "x",
        everywhere(0),
        lambda x: functional.normalize(x, dim=-1),
    ),
    Fault(
        "smooth_not_blurred_back",
        ("passed_through",),
        Smooth,
        drawn(normal(3, 1, 40), plain(uniform(0.2, 0.5, 3))),
        "signal",
        everywhere(0),
        lambda x, taps: (functional.pad(x, (1, 1)).unfold(-1, 3, 1) * taps).sum(-1),
    ),
    Fault(
        "power_identity",
        ("passed_through", "factor"),
        Power,
        drawn(uniform(0.4, 2, 2, 3, 30), 1.5),
        "x",
        everywhere(0),
        lambda x, exponent: x * x.sqrt(),
    ),
    Fault(
        "squashed_column_identity",
        ("passed_through", "factor"),
        LogitColumn,
        drawn(normal(60, 6)),
        "boxes",
        _column_four,
        lambda x: torch.where(_column_four(x), x.sigmoid(), x),
    ),
]
