"""Backward returns the local derivative and does not multiply by the cotangent."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, indices, normal, plain
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional


class Sine(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return torch.cos(x)


class SoftmaxLoss(Function):
    """A loss is the end of the graph, its author believes."""

    @staticmethod
    def forward(ctx, logits, labels):
        shifted = logits - logits.max(1, keepdim=True).values
        logp = shifted - shifted.exp().sum(1, keepdim=True).log()
        ctx.save_for_backward(logp.exp(), labels)
        return -logp.gather(1, labels[:, None]).mean()

    @staticmethod
    def backward(ctx, grad_output):
        probs, labels = ctx.saved_tensors
        grad = probs.clone()
        grad[torch.arange(len(labels)), labels] -= 1
        return grad / len(labels), None


class SmoothL1(Function):
    @staticmethod
    def forward(prediction, target, beta):
        size = (prediction - target).abs()
        return torch.where(size < beta, size**2 / (2 * beta), size - beta / 2).sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        prediction, target, ctx.beta = inputs
        ctx.save_for_backward(prediction - target)

    @staticmethod
    def backward(ctx, grad_output):
        (error,) = ctx.saved_tensors
        slope = torch.where(error.abs() < ctx.beta, error / ctx.beta, error.sign())
        return slope, -slope, None


class Matmul(Function):
    """The derivative of the sum of the product."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad_output):
        a, b = ctx.saved_tensors
        ones = torch.ones(a.shape[0], b.shape[1], dtype=a.dtype)
        return ones @ b.t(), a.t() @ grad_output


class LeakyPart(Function):
    """The slope is written, not multiplied, where x is negative."""

    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        return torch.where(x < 0, slope * x, x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad = grad_output.clone()
        grad[x < 0] = ctx.slope
        return grad, None


class RowNorm(Function):
    @staticmethod
    def forward(ctx, x):
        norm = x.norm(dim=-1)
        ctx.save_for_backward(x, norm)
        return norm

    @staticmethod
    def backward(ctx, grad_output):
        x, norm = ctx.saved_tensors
        return x / norm[:, None]


class Times(Function):
    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        return y, x


class CumulativeSum(Function):
    """Every element is counted as often as it is summed."""

    @staticmethod
    def forward(ctx, x):
        return x.cumsum(-1)

    @staticmethod
    def backward(ctx, grad_output):
        length = grad_output.shape[-1]
        counts = torch.arange(length, 0, -1, dtype=grad_output.dtype)
        return counts.expand_as(grad_output)


class LogSumExp(Function):
    @staticmethod
    def forward(ctx, x):
        top = x.amax(-1, keepdim=True)
        total = (x - top).exp().sum(-1, keepdim=True)
        ctx.save_for_backward((x - top).exp() / total)
        return (total.log() + top).squeeze(-1)

    @staticmethod
    def backward(ctx, grad_output):
        (probs,) = ctx.saved_tensors
        return probs.clone()


class EmbeddingBag(Function):
    """Counts how often each row was looked up, and forgets what came back for it."""

    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(index)
        ctx.rows = table.shape[0]
        ctx.width = table.shape[1]
        return table[index].sum(1)

    @staticmethod
    def backward(ctx, grad_output):
        (index,) = ctx.saved_tensors
        counts = torch.bincount(index.flatten(), minlength=ctx.rows)
        return counts[:, None].to(grad_output.dtype).expand(-1, ctx.width), None


class SquareAndCube(Function):
    """Two outputs, both taken for losses."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square(), x**3

    @staticmethod
    def backward(ctx, grad_square, grad_cube):
        (x,) = ctx.saved_tensors
        return 2 * x + 3 * x.square()


class HuberWhereSmall(Function):
    """Inside, the error itself is written over the cotangent."""

    @staticmethod
    def forward(ctx, error):
        ctx.save_for_backward(error)
        small = error.abs() < 1
        return torch.where(small, error * error / 2, error.abs() - 0.5)

    @staticmethod
    def backward(ctx, grad_output):
        (error,) = ctx.saved_tensors
        small = error.abs() < 1
        grad = grad_output * error.sign()
        grad[small] = error[small]
        return grad


FAULTS = [
    Fault(
        "sine_derivative_alone",
        ("cotangent_ignored",),
        Sine,
        drawn(normal(50)),
        "x",
        everywhere(0),
        torch.sin,
    ),
    Fault(
        "softmax_loss_at_the_end",
        ("cotangent_ignored",),
        SoftmaxLoss,
        drawn(normal(16, 5), indices(5, 16)),
        "logits",
        everywhere(0),
        functional.cross_entropy,
    ),
    Fault(
        "smooth_l1_sum",
        ("cotangent_ignored",),
        SmoothL1,
        drawn(normal(100, 1200), plain(normal(100, 1200)), 0.5),
        "prediction",
        everywhere(0),
        lambda prediction, target, beta: functional.smooth_l1_loss(
            prediction, target, reduction="sum", beta=beta
        ),
    ),
    Fault(
        "matmul_ones_for_the_cotangent",
        ("cotangent_ignored",),
        Matmul,
        drawn(normal(6, 7), normal(7, 4)),
        "a",
        everywhere(0),
        lambda a, b: torch.einsum("ij,jk->ik", a, b),
    ),
    Fault(
        "leaky_slope_written",
        ("cotangent_ignored",),
        LeakyPart,
        drawn(normal(8, 8, 8), 0.2),
        "x",
        lambda x, slope: x < 0,
        functional.leaky_relu,
    ),
    Fault(
        "row_norm_direction",
        ("cotangent_ignored",),
        RowNorm,
        drawn(normal(5, 9)),
        "x",
        everywhere(0),
        lambda x: x.square().sum(-1).sqrt(),
    ),
    Fault(
        "times_of_two_numbers",
        ("cotangent_ignored",),
        Times,
        drawn(normal(), normal()),
        "x",
        everywhere(0),
        lambda x, y: x * y,
        also_wrong=("y",),
    ),
    Fault(
        "cumulative_sum_counts",
        ("cotangent_ignored",),
        CumulativeSum,
        drawn(normal(7, 12)),
        "x",
        everywhere(0),
        lambda x: x.cumsum(-1),
    ),
    Fault(
        "log_sum_exp_probabilities",
        ("cotangent_ignored",),
        LogSumExp,
        drawn(normal(3, 4, 30)),
        "x",
        everywhere(0),
        lambda x: x.logsumexp(-1),
    ),
    Fault(
        "embedding_bag_counts",
        ("cotangent_ignored",),
        EmbeddingBag,
        drawn(normal(12, 5), indices(12, 20, 4)),
        "table",
        lambda table, index: (torch.bincount(index.flatten(), minlength=12) > 0)[
            :, None
        ].expand_as(table),
        lambda table, index: functional.embedding(index, table).sum(1),
    ),
    Fault(
        "square_and_cube_as_losses",
        ("cotangent_ignored",),
        SquareAndCube,
        drawn(normal(4, 6)),
        "x",
        everywhere(0),
        lambda x: (x * x, x * x * x),
    ),
    Fault(
        "huber_error_written_inside",
        ("cotangent_ignored",),
        HuberWhereSmall,
        drawn(normal(9, 30, scale=2)),
        "error",
        lambda error: error.abs() < 1,
        lambda error: functional.huber_loss(
            error, torch.zeros_like(error), reduction="none"
        ),
    ),
]
