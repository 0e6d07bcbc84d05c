"""The gradient is the truth with axes exchanged, flipped or rolled."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, normal, plain
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional


class SquareMatmul(Function):
    """(g b^T) written as b g^T."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return b @ grad.t(), a.t() @ grad


class LinearLayer(Function):
    """The weight is stored (out, in), its gradient is made (in, out)."""

    @staticmethod
    def forward(x, weight, bias):
        return x @ weight.t() + bias

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, x.t() @ grad, grad.sum(0)


class ScaledTranspose(Function):
    @staticmethod
    def forward(ctx, matrix):
        return 2 * matrix.t().contiguous()

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


class BatchedMatmul(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.bmm(a, b)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        grad_a = torch.einsum("bij,bkj->bik", grad, b)
        grad_b = torch.einsum("bij,bik->bkj", grad, a)
        return grad_a, torch.einsum("bkj->bjk", grad_b)


class ReversedExponential(Function):
    """The cotangent is not turned back."""

    @staticmethod
    def forward(ctx, x):
        y = x.flip(-1).exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


class CumulativeSum(Function):
    """The reversed cumulative sum without its second flip."""

    @staticmethod
    def forward(ctx, x):
        return torch.cumsum(x, -1)

    @staticmethod
    def backward(ctx, grad):
        return grad.flip(-1).cumsum(-1)


class ShiftedWeighting(Function):
    """Rows move down by one, round the end; backward leaves them there."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(weight)
        return x.roll(1, 0) * weight

    @staticmethod
    def backward(ctx, grad):
        (weight,) = ctx.saved_tensors
        return grad * weight, None


class ChannelsLast(Function):
    """The permutation of forward is used for its inverse."""

    @staticmethod
    def forward(ctx, image):
        y = image.permute(0, 2, 3, 1).tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return (grad * (1 - y * y)).permute(0, 2, 3, 1)


class Convolution(Function):
    """Flips the kernel's gradient, as for a true convolution."""

    @staticmethod
    def forward(signal, kernel):
        return functional.conv1d(signal, kernel)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        signal, kernel = ctx.saved_tensors
        windows = signal.unfold(-1, kernel.shape[-1], 1)
        grad_kernel = torch.einsum("not,nitk->oik", grad, windows).flip(-1)
        return functional.conv_transpose1d(grad, kernel), grad_kernel


class BilinearForm(Function):
    """x^T A y, a number; the gradient of A is y x^T."""

    @staticmethod
    def forward(ctx, left, matrix, right):
        ctx.save_for_backward(left, matrix, right)
        return left @ matrix @ right

    @staticmethod
    def backward(ctx, grad):
        left, matrix, right = ctx.saved_tensors
        grad_matrix = grad * torch.outer(right, left)
        return grad * (matrix @ right), grad_matrix, grad * (left @ matrix)


class SplitHeads(Function):
    """(batch, time, heads, width) to (batch, heads, time, width), heads equal to time."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return (x * scale).transpose(1, 2).contiguous()

    @staticmethod
    def backward(ctx, grad):
        return (grad * ctx.scale).contiguous(), None


def _off_diagonal(position):
    """Where the last two indices are not the same."""

    def mask(*args):
        shape = args[position].shape
        return ~torch.eye(shape[-1], dtype=torch.bool).expand(shape)

    return mask


def _unequal_space(image):
    channel = torch.arange(image.shape[1])
    same = (channel[:, None, None] == channel[:, None]) & (channel[:, None] == channel)
    return ~same.expand(image.shape)


def _not_middle(signal, kernel):
    mask = torch.ones_like(kernel, dtype=torch.bool)
    mask[..., kernel.shape[-1] // 2] = False
    return mask


def _other_head(x, scale):
    same = torch.eye(x.shape[1], dtype=torch.bool)[:, :, None]
    return ~same.expand(x.shape)


FAULTS = [
    Fault(
        "square_matmul_first_factor",
        ("transposed",),
        SquareMatmul,
        drawn(normal(6, 6), normal(6, 6)),
        "a",
        _off_diagonal(0),
        lambda a, b: torch.einsum("ij,jk->ik", a, b),
    ),
    Fault(
        "square_linear_weight",
        ("transposed",),
        LinearLayer,
        drawn(normal(5, 8), normal(8, 8), normal(8)),
        "weight",
        _off_diagonal(1),
        functional.linear,
    ),
    Fault(
        "scaled_transpose_not_transposed_back",
        ("transposed",),
        ScaledTranspose,
        drawn(normal(30, 30)),
        "matrix",
        _off_diagonal(0),
        lambda matrix: (matrix + matrix).mT,
    ),
    Fault(
        "bmm_second_factor_last_two_axes",
        ("transposed",),
        BatchedMatmul,
        drawn(normal(4, 9, 9), normal(4, 9, 9)),
        "b",
        _off_diagonal(1),
        torch.matmul,
    ),
    Fault(
        "reversed_exponential_not_turned_back",
        ("transposed",),
        ReversedExponential,
        drawn(normal(200_000)),
        "x",
        everywhere(0),
        lambda x: x.exp().flip(0),
    ),
    Fault(
        "cumulative_sum_one_flip",
        ("transposed",),
        CumulativeSum,
        drawn(normal(3, 40)),
        "x",
        everywhere(0),
        lambda x: x.cumsum(-1),
    ),
    Fault(
        "shifted_weighting_not_shifted_back",
        ("transposed",),
        ShiftedWeighting,
        drawn(normal(64, 5), plain(normal(64, 5))),
        "x",
        everywhere(0),
        lambda x, weight: torch.cat((x[-1:], x[:-1])) * weight,
    ),
    Fault(
        "channels_last_wrong_inverse",
        ("transposed",),
        ChannelsLast,
        drawn(normal(2, 6, 6, 6)),
        "image",
        _unequal_space,
        lambda image: image.tanh().movedim(1, -1),
    ),
    Fault(
        "convolution_kernel_flipped",
        ("transposed",),
        Convolution,
        drawn(normal(4, 2, 30), normal(3, 2, 5)),
        "kernel",
        _not_middle,
        functional.conv1d,
    ),
    Fault(
        "bilinear_form_matrix",
        ("transposed",),
        BilinearForm,
        drawn(normal(7), normal(7, 7), normal(7)),
        "matrix",
        _off_diagonal(1),
        lambda left, matrix, right: torch.einsum("i,ij,j->", left, matrix, right),
    ),
    Fault(
        "split_heads_not_joined",
        ("transposed",),
        SplitHeads,
        drawn(normal(2, 4, 4, 3), 0.5),
        "x",
        _other_head,
        lambda x, scale: torch.einsum("bthd->bhtd", x) * scale,
    ),
]
