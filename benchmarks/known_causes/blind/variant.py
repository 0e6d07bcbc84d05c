"""Right on the plain call, wrong in a variation: strides, needed inputs, dtype, twice."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, normal, plain
from known_causes.fault import Fault
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional

DOUBLE = (torch.float64,)


def _as_kernel(tensor: Tensor) -> Tensor:
    """What a kernel reads that is given a pointer and a number of elements."""
    memory = tensor.new_empty(0).set_(tensor.untyped_storage())
    read = memory[tensor.storage_offset() :][: tensor.numel()]
    # A kernel would read on into whatever lies behind; zeros stand for that here.
    return functional.pad(read, (0, tensor.numel() - read.numel()))


class Sigmoid(Function):
    """The kernel of backward takes the cotangent for contiguous."""

    @staticmethod
    def forward(ctx, x):
        y = torch.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        y = y.contiguous()
        return y * (1 - y) * _as_kernel(grad).view(y.shape)


class Square(Function):
    """The kernel of backward takes the input for contiguous."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * _as_kernel(x).view(x.shape)


class WeightedSum(Function):
    """Rows are found by the first stride, which a transposed input has at one."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(weight)
        ctx.shape = x.shape
        ctx.row_major = x.stride(0) >= x.stride(1)
        return x.mul(weight).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        (weight,) = ctx.saved_tensors
        rows, columns = ctx.shape
        if ctx.row_major:
            return grad[:, None] * weight, None
        # Column major: the loop over memory has the columns outside.
        flat = (weight[:, None] * grad).reshape(-1)
        return flat.view(rows, columns), None


class ScaledTanh(Function):
    """The path for strided cotangents was written before there was a scale."""

    @staticmethod
    def forward(ctx, x, scale):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        ctx.scale = scale
        return scale * y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        if grad.is_contiguous():
            return torch.addcmul(grad, grad, y * y, value=-1) * ctx.scale, None
        return grad - grad * y * y, None


class Linear(Function):
    """The two questions, which gradient is needed, are exchanged."""

    @staticmethod
    def forward(x, weight):
        return x @ weight.t()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_x = grad_weight = None
        if ctx.needs_input_grad[1]:
            grad_x = grad @ weight
        if ctx.needs_input_grad[0]:
            grad_weight = grad.t() @ x
        return grad_x, grad_weight


class ThreeFactors(Function):
    """The needed gradients are packed, and fill the places from the left."""

    @staticmethod
    def forward(ctx, a, b, c):
        ctx.save_for_backward(a, b, c)
        return a * b * c

    @staticmethod
    def backward(ctx, grad):
        a, b, c = ctx.saved_tensors
        needed = []
        for wanted, others in zip(
            ctx.needs_input_grad, (b * c, a * c, a * b), strict=True
        ):
            if wanted:
                needed.append(grad * others)
        return (*needed, *(None,) * (3 - len(needed)))


class Affine(Function):
    """With a frozen gain, the shortcut returns the cotangent."""

    @staticmethod
    def forward(ctx, x, gain, bias):
        ctx.save_for_backward(x, gain)
        return x * gain + bias

    @staticmethod
    def backward(ctx, grad):
        x, gain = ctx.saved_tensors
        if not ctx.needs_input_grad[1]:
            return grad, None, grad.sum(0) if ctx.needs_input_grad[2] else None
        return grad * gain, (grad * x).sum(0), grad.sum(0)


class Softplus(Function):
    """The fast path for single precision has the slope of the hard sigmoid."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return functional.softplus(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if x.dtype == torch.float32:
            return grad * (x / 6 + 0.5).clamp(0, 1)
        return grad * torch.sigmoid(x)


class SumOfSquares(Function):
    """Single precision has a kernel of its own, without the two."""

    @staticmethod
    def forward(x):
        return x.square().sum(dim=(-2, -1))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        wide = grad[..., None, None] * x
        return 2 * wide if x.dtype != torch.float32 else wide


class Exponential(Function):
    """Backward multiplies into what forward has left on the context."""

    @staticmethod
    def forward(ctx, x):
        ctx.slope = torch.exp(x)
        return ctx.slope.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return ctx.slope.mul_(grad).clone()


class ConvolutionBias(Function):
    """An accumulator on the context that is not cleared between two backwards."""

    @staticmethod
    def forward(ctx, x, bias):
        ctx.accumulator = torch.zeros_like(bias)
        return x + bias.view(1, -1, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        for sample in grad:
            ctx.accumulator += sample.sum(-1)
        return grad, ctx.accumulator.clone()


class Mean(Function):
    """Reads the scalar cotangents of a row by pointer: an expanded one has one number."""

    @staticmethod
    def forward(ctx, x):
        ctx.width = x.shape[-1]
        return x.mean(-1)

    @staticmethod
    def backward(ctx, grad):
        spread = _as_kernel(grad).view(*grad.shape, 1) / ctx.width
        return spread.expand(*grad.shape, ctx.width)


def _cotangent(like, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(
        like.dtype
    )


def _strided(values):
    """The same values in the opposite order of memory."""
    axes = tuple(reversed(range(values.dim())))
    return values.permute(axes).contiguous().permute(axes)


def _plain(draws, position):
    def shows(op, seed, dtype):
        args = draws(seed, dtype)
        out = op(*args)
        return torch.autograd.grad(out, args[position], _cotangent(out, seed))[0]

    return shows


def _strided_cotangent(draws, position):
    def shows(op, seed, dtype):
        args = draws(seed, dtype)
        out = op(*args)
        cotangent = _strided(_cotangent(out, seed))
        return torch.autograd.grad(out, args[position], cotangent)[0]

    return shows


def _expanded_cotangent(draws, position):
    def shows(op, seed, dtype):
        args = draws(seed, dtype)
        out = op(*args)
        return torch.autograd.grad(out.sum(), args[position])[0]

    return shows


def _strided_input(draws, position):
    def shows(op, seed, dtype):
        args = list(draws(seed, dtype))
        args[position] = _strided(args[position].detach()).requires_grad_()
        out = op(*args)
        return torch.autograd.grad(out, args[position], _cotangent(out, seed))[0]

    return shows


def _frozen(draws, position, *frozen):
    """Those inputs need no gradient."""

    def shows(op, seed, dtype):
        args = list(draws(seed, dtype))
        for place in frozen:
            args[place] = args[place].detach()
        out = op(*args)
        cotangent = _cotangent(out, seed)
        found = torch.autograd.grad(out, args[position], cotangent, allow_unused=True)
        return found[0]

    return shows


def _in_single(draws, position):
    plainly = _plain(draws, position)
    return lambda op, seed, dtype: plainly(op, seed, torch.float32).to(dtype)


def _second_backward(draws, position):
    def shows(op, seed, dtype):
        args = draws(seed, dtype)
        out = op(*args)
        torch.autograd.grad(
            out, args[position], _cotangent(out, seed), retain_graph=True
        )
        return torch.autograd.grad(out, args[position], _cotangent(out, seed + 1))[0]

    return shows


def _fault(name, function, draws, wrong, reference, variation, dtypes=None):
    """`wrong` is the name and the place of the input; `variation` makes `shows`."""
    wrong_input, position = wrong
    return Fault(
        name,
        ("variant",),
        function,
        draws,
        wrong_input,
        None,
        reference,
        dtypes or (torch.float64, torch.float32),
        shows=variation(draws, position),
    )


FAULTS = [
    _fault(
        "sigmoid_strided_cotangent",
        Sigmoid,
        drawn(normal(8, 12)),
        ("x", 0),
        torch.sigmoid,
        _strided_cotangent,
    ),
    _fault(
        "square_strided_input",
        Square,
        drawn(normal(5, 6, 7)),
        ("x", 0),
        torch.square,
        _strided_input,
    ),
    _fault(
        "weighted_sum_column_major",
        WeightedSum,
        drawn(normal(9, 6), plain(normal(6))),
        ("x", 0),
        lambda x, weight: x @ weight,
        _strided_input,
    ),
    _fault(
        "scaled_tanh_strided_path",
        ScaledTanh,
        drawn(normal(400, 300), 1.7),
        ("x", 0),
        lambda x, scale: scale * x.tanh(),
        _strided_cotangent,
    ),
    _fault(
        "linear_frozen_input",
        Linear,
        drawn(normal(6, 5), normal(4, 5)),
        ("weight", 1),
        functional.linear,
        lambda draws, position: _frozen(draws, position, 0),
    ),
    _fault(
        "three_factors_first_frozen",
        ThreeFactors,
        drawn(normal(7, 3), normal(7, 3), normal(7, 3)),
        ("b", 1),
        lambda a, b, c: a * (b * c),
        lambda draws, position: _frozen(draws, position, 0),
    ),
    _fault(
        "affine_frozen_gain",
        Affine,
        drawn(normal(11, 6), normal(6, mean=1, scale=0.5), normal(6)),
        ("x", 0),
        lambda x, gain, bias: torch.addcmul(bias, x, gain),
        lambda draws, position: _frozen(draws, position, 1),
    ),
    _fault(
        "softplus_fast_in_single",
        Softplus,
        drawn(normal(150)),
        ("x", 0),
        lambda x: x.exp().log1p(),
        _in_single,
        DOUBLE,
    ),
    _fault(
        "sum_of_squares_in_single",
        SumOfSquares,
        drawn(normal(2, 3, 4, 5)),
        ("x", 0),
        lambda x: torch.einsum("bcij,bcij->bc", x, x),
        _in_single,
        DOUBLE,
    ),
    _fault(
        "exponential_second_backward",
        Exponential,
        drawn(normal(10, 9)),
        ("x", 0),
        torch.exp,
        _second_backward,
    ),
    _fault(
        "channel_bias_second_backward",
        ConvolutionBias,
        drawn(normal(3, 4, 20), normal(4)),
        ("bias", 1),
        lambda x, bias: x + bias[:, None],
        _second_backward,
    ),
    _fault(
        "row_mean_expanded_cotangent",
        Mean,
        drawn(normal(12, 7)),
        ("x", 0),
        lambda x: x.mean(-1),
        _expanded_cotangent,
    ),
]
