"""Backward returns the local derivative, and does not multiply by the cotangent."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, flags, indices, normal, plain, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional


class Cosh(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.cosh(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.sinh(x)


class Linear(Function):
    """Right for a sum of the outputs, for which it was tested."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return weight.sum(0).expand_as(x), grad.t() @ x, grad.sum(0)


class MeanSquaredError(Function):
    @staticmethod
    def forward(ctx, prediction, target):
        difference = prediction - target
        ctx.save_for_backward(difference)
        return difference.square().mean()

    @staticmethod
    def backward(ctx, grad):
        (difference,) = ctx.saved_tensors
        return 2 / difference.numel() * difference, None


class RowProduct(Function):
    @staticmethod
    def forward(x):
        return x.prod(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return y[..., None] / x


class LogDeterminant(Function):
    """Of a batch."""

    @staticmethod
    def forward(ctx, matrix):
        ctx.save_for_backward(matrix)
        return torch.logdet(matrix)

    @staticmethod
    def backward(ctx, grad):
        (matrix,) = ctx.saved_tensors
        return torch.linalg.inv(matrix).mT


class Bilinear(Function):
    """x A y, a number a sample; the matrix gets the sum of the outer products."""

    @staticmethod
    def forward(ctx, x, matrix, y):
        ctx.save_for_backward(x, matrix, y)
        return torch.einsum("bi,ij,bj->b", x, matrix, y)

    @staticmethod
    def backward(ctx, grad):
        x, matrix, y = ctx.saved_tensors
        g = grad[:, None]
        return g * (y @ matrix.t()), x.t() @ y, g * (x @ matrix)


class Multiply(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return b.clone(), grad * a


class Convolution(Function):
    """The taps get sums of the signal."""

    @staticmethod
    def forward(ctx, signal, taps):
        ctx.save_for_backward(signal, taps)
        return functional.conv1d(signal[:, None], taps[None, None])[:, 0]

    @staticmethod
    def backward(ctx, grad):
        signal, taps = ctx.saved_tensors
        windows = signal.unfold(-1, len(taps), 1)
        full = functional.pad(grad, (len(taps) - 1, len(taps) - 1))
        return full.unfold(-1, len(taps), 1) @ taps.flip(0), windows.sum((0, 1))


class SquareOrLinear(Function):
    """The branch of the squares."""

    @staticmethod
    def forward(ctx, x, squared):
        ctx.save_for_backward(x, squared)
        return torch.where(squared, x * x, x)

    @staticmethod
    def backward(ctx, grad):
        x, squared = ctx.saved_tensors
        return torch.where(squared, 2 * x, grad), None


class Gather(Function):
    """Counts how often each was taken."""

    @staticmethod
    def forward(ctx, x, index):
        ctx.save_for_backward(index)
        ctx.shape = x.shape
        return x.gather(1, index)

    @staticmethod
    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        result = grad.new_zeros(ctx.shape)
        return result.scatter_add_(1, index, torch.ones_like(grad)), None


class SineAndCosine(Function):
    """Two outputs."""

    @staticmethod
    def forward(ctx, x):
        s, c = x.sin(), x.cos()
        ctx.save_for_backward(s, c)
        return s, c

    @staticmethod
    def backward(ctx, grad_s, grad_c):
        s, c = ctx.saved_tensors
        return c - s


FAULTS = [
    Fault(
        "cosh_derivative_alone",
        ("cotangent_ignored",),
        Cosh,
        drawn(normal(100_000)),
        "x",
        everywhere(0),
        torch.cosh,
    ),
    Fault(
        "linear_sum_of_weights",
        ("cotangent_ignored",),
        Linear,
        drawn(normal(14, 9), normal(6, 9), normal(6)),
        "x",
        everywhere(0),
        functional.linear,
    ),
    Fault(
        "mean_squared_error_as_the_end",
        ("cotangent_ignored",),
        MeanSquaredError,
        drawn(normal(200, 40), plain(normal(200, 40))),
        "prediction",
        everywhere(0),
        functional.mse_loss,
    ),
    Fault(
        "row_product_of_the_others",
        ("cotangent_ignored",),
        RowProduct,
        drawn(uniform(0.5, 1.5, 3, 4, 5)),
        "x",
        everywhere(0),
        lambda x: x.log().sum(-1).exp(),
    ),
    Fault(
        "log_determinant_inverse",
        ("cotangent_ignored",),
        LogDeterminant,
        lambda seed, dtype: (
            (
                drawn(normal(6, 3, 3, scale=0.2))(seed, dtype)[0].detach()
                + torch.eye(3, dtype=dtype)
            ).requires_grad_(),
        ),
        "matrix",
        everywhere(0),
        lambda matrix: matrix.det().log(),
    ),
    Fault(
        "bilinear_matrix_sum_of_outer_products",
        ("cotangent_ignored",),
        Bilinear,
        drawn(normal(12, 4), normal(4, 5), normal(12, 5)),
        "matrix",
        everywhere(1),
        lambda x, matrix, y: ((x @ matrix) * y).sum(-1),
    ),
    Fault(
        "multiply_other_factor_alone",
        ("cotangent_ignored",),
        Multiply,
        drawn(normal(250, 250), normal(250, 250)),
        "a",
        everywhere(0),
        torch.mul,
    ),
    Fault(
        "convolution_taps_sums_of_signal",
        ("cotangent_ignored",),
        Convolution,
        drawn(normal(4, 50), normal(5)),
        "taps",
        everywhere(1),
        lambda signal, taps: signal.unfold(-1, 5, 1) @ taps,
    ),
    Fault(
        "square_branch_alone",
        ("cotangent_ignored",),
        SquareOrLinear,
        drawn(normal(70, 30), flags(0.2, 70, 30)),
        "x",
        lambda x, squared: squared,
        lambda x, squared: torch.where(squared, x.square(), x),
    ),
    Fault(
        "gather_counts",
        ("cotangent_ignored",),
        Gather,
        drawn(normal(5, 6), indices(6, 5, 30)),
        "x",
        everywhere(0),
        lambda x, index: torch.take_along_dim(x, index, 1),
    ),
    Fault(
        "sine_and_cosine_two_outputs",
        ("cotangent_ignored",),
        SineAndCosine,
        drawn(normal(2, 2, 3, 4)),
        "x",
        everywhere(0),
        lambda x: (x.sin(), x.cos()),
    ),
]
