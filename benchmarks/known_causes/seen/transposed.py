"""The right numbers in another order: axes exchanged, turned around, shifted."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, normal, plain
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional


class Gram(Function):
    """a.T @ b, square."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a.t() @ b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad @ b.t(), a @ grad


class Inverse(Function):
    @staticmethod
    def forward(ctx, matrix):
        y = torch.linalg.inv(matrix)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return -(y.mT @ grad @ y.mT).mT


class HeadsFirst(Function):
    """[batch, time, heads, width] with heads in front; as many heads as times."""

    @staticmethod
    def forward(ctx, x):
        y = x.permute(0, 2, 1, 3).tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y)


class Circular(Function):
    """Shifted along the rows; the shift is left out on the way back."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.atan(x).roll(1, 0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (grad / (1 + x.roll(1, 0) ** 2)).clone()


class Convolution(Function):
    """The gradient of the kernel is that of a convolution, forward is a correlation."""

    @staticmethod
    def forward(ctx, image, kernel):
        ctx.save_for_backward(image, kernel)
        return functional.conv2d(image, kernel)

    @staticmethod
    def backward(ctx, grad):
        image, kernel = ctx.saved_tensors
        grad_image = functional.conv_transpose2d(grad, kernel)
        grad_kernel = torch.empty_like(kernel)
        rows, columns = kernel.shape[-2:]
        height, width = grad.shape[-2:]
        for i in range(rows):
            for j in range(columns):
                seen = image[..., i : i + height, j : j + width]
                at = (..., rows - 1 - i, columns - 1 - j)
                grad_kernel[at] = torch.einsum("bohw,bihw->oi", grad, seen)
        return grad_image, grad_kernel


class Tokens(Function):
    """Pixels become tokens; their gradient is laid out as if it were the image's."""

    @staticmethod
    def forward(ctx, image):
        ctx.save_for_backward(image)
        return image.square().flatten(2).transpose(1, 2)

    @staticmethod
    def backward(ctx, grad):
        (image,) = ctx.saved_tensors
        tokens = image.flatten(2).transpose(1, 2)
        return (2 * grad * tokens).reshape(image.shape)


class Recurrence(Function):
    """h[t] = decay h[t-1] + x[t]; backward runs in the same direction."""

    @staticmethod
    def forward(ctx, x, decay):
        ctx.decay = decay
        return _scan(x, decay)

    @staticmethod
    def backward(ctx, grad):
        return _scan(grad, ctx.decay), None


def _scan(x, decay):
    state, states = torch.zeros_like(x[..., 0]), []
    for step in x.unbind(-1):
        state = decay * state + step
        states.append(state)
    return torch.stack(states, -1)


def _powers(decay, length):
    """decay**(t - s) from s to every later t."""
    steps = torch.arange(length, dtype=torch.float64)
    return (decay ** (steps - steps[:, None])).triu()


class PairwiseDistance(Function):
    """Squared, of as many points to as many; backward has the pairs exchanged."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return (a[:, None] - b).square().sum(-1)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        between = 2 * grad.t()[:, :, None] * (a[:, None] - b)
        return between.sum(1), -(2 * grad[:, :, None] * (a[:, None] - b)).sum(0)


class WeightedTranspose(Function):
    """Last two axes of three."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.weight = weight
        return x.mT * weight

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.weight, None


class LargeTranspose(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return (scale * x).t().contiguous()

    @staticmethod
    def backward(ctx, grad):
        return ctx.scale * grad, None


class Mirror(Function):
    """Columns mirrored, then weighted; backward weights and does not mirror."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(weight)
        return x.flip(-1) * weight

    @staticmethod
    def backward(ctx, grad):
        (weight,) = ctx.saved_tensors
        return grad * weight, None


def _off_diagonal(x, *rest):
    return ~torch.eye(x.shape[-1], dtype=torch.bool).expand(x.shape)


def _heads_differ(x):
    return _off_diagonal(x[..., 0])[..., None].expand(x.shape)


def _regular(seed, dtype):
    """Matrices far from singular."""
    (x,) = drawn(normal(5, 4, 4, scale=0.2))(seed, dtype)
    return ((x.detach() + torch.eye(4, dtype=dtype)).requires_grad_(),)


def _moved_pixels(image):
    """Those that the wrong layout puts elsewhere."""
    numbers = torch.arange(image[0].numel()).reshape(image.shape[1:])
    tokens = numbers.flatten(1).t().reshape(image.shape[1:])
    return (numbers != tokens).expand(image.shape)


FAULTS = [
    Fault(
        "gram_first_factor",
        ("transposed",),
        Gram,
        drawn(normal(7, 7), normal(7, 7)),
        "a",
        _off_diagonal,
        lambda a, b: torch.einsum("ki,kj->ij", a, b),
    ),
    Fault(
        "inverse_of_a_batch",
        ("transposed",),
        Inverse,
        _regular,
        "matrix",
        _off_diagonal,
        lambda m: torch.linalg.solve(m, torch.eye(4, dtype=m.dtype).expand(m.shape)),
    ),
    Fault(
        "heads_first_not_put_back",
        ("transposed",),
        HeadsFirst,
        drawn(normal(2, 5, 5, 3)),
        "x",
        _heads_differ,
        lambda x: x.transpose(1, 2).tanh(),
    ),
    Fault(
        "circular_rows_not_shifted_back",
        ("transposed",),
        Circular,
        drawn(normal(6, 7)),
        "x",
        everywhere(0),
        lambda x: torch.cat((x[-1:], x[:-1])).atan(),
    ),
    Fault(
        "convolution_kernel_turned",
        ("transposed",),
        Convolution,
        drawn(normal(2, 2, 8, 9), normal(3, 2, 3, 2)),
        "kernel",
        everywhere(1),
        functional.conv2d,
    ),
    Fault(
        "tokens_laid_out_as_the_image",
        ("transposed",),
        Tokens,
        drawn(normal(2, 3, 4, 5)),
        "image",
        _moved_pixels,
        lambda image: (image**2).permute(0, 2, 3, 1).flatten(1, 2),
    ),
    Fault(
        "recurrence_scanned_forward",
        ("transposed",),
        Recurrence,
        drawn(normal(5, 18), 0.8),
        "x",
        everywhere(0),
        lambda x, decay: x @ _powers(decay, x.shape[-1]).to(x.dtype),
    ),
    Fault(
        "pairwise_distance_pairs_exchanged",
        ("transposed",),
        PairwiseDistance,
        drawn(normal(8, 3), normal(8, 3)),
        "a",
        everywhere(0),
        lambda a, b: torch.cdist(a, b) ** 2,
    ),
    Fault(
        "weighted_transpose_last_two_axes",
        ("transposed",),
        WeightedTranspose,
        drawn(normal(4, 6, 6), 0.7),
        "x",
        _off_diagonal,
        lambda x, weight: weight * x.transpose(-1, -2),
    ),
    Fault(
        "large_transpose_not_turned_back",
        ("transposed",),
        LargeTranspose,
        drawn(normal(400, 400), 1.3),
        "x",
        _off_diagonal,
        lambda x, scale: x.t() * scale,
    ),
    Fault(
        "mirror_not_mirrored_back",
        ("transposed",),
        Mirror,
        drawn(normal(9, 4, 12), plain(normal(9, 4, 1))),
        "x",
        everywhere(0),
        lambda x, weight: (x * weight).flip(-1),
    ),
]
