"""Right on the plain call, wrong in a variation: strides, needed inputs, type, twice."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, normal, plain, uniform
from known_causes.fault import Fault
from torch.autograd import Function
from torch.nn import functional

SINGLE_ALONE = (torch.float64,)  # where the plain call is right


def _memory(tensor):
    """The elements as they lie in memory, which a C loop takes for the order of rows."""
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return tensor.permute(order).reshape(-1)


class Cosine(Function):
    """Backward's loop runs over the memory of the input it saved."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.cos(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        flat = -grad.reshape(-1) * torch.sin(_memory(x))
        return flat.view(grad.shape)


class Matmul(Function):
    """What is not contiguous is taken for transposed already."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        if not grad.is_contiguous():
            grad = grad.t().reshape(grad.shape)
        return grad @ b.t(), a.t() @ grad


class InstanceScale(Function):
    """One factor a channel; channels are found by the largest stride but one."""

    @staticmethod
    def forward(ctx, image, gain):
        ctx.save_for_backward(gain)
        strides = image.stride()
        ctx.axis = sorted(range(4), key=lambda a: -strides[a])[1]
        return image * gain.view(1, -1, 1, 1)

    @staticmethod
    def backward(ctx, grad):
        (gain,) = ctx.saved_tensors
        shape = [1, 1, 1, 1]
        shape[ctx.axis] = -1
        return grad * gain.view(shape), None


class LayerNorm(Function):
    """Everything is skipped where the input needs no gradient, the bias too."""

    @staticmethod
    def forward(ctx, x, gain, bias):
        centred = x - x.mean(-1, keepdim=True)
        inverse = torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
        y = centred * inverse
        ctx.save_for_backward(y, inverse, gain)
        return y * gain + bias

    @staticmethod
    def backward(ctx, grad):
        y, inverse, gain = ctx.saved_tensors
        if not ctx.needs_input_grad[0]:
            return None, torch.zeros_like(gain), torch.zeros_like(gain)
        g = grad * gain
        along = (g * y).mean(-1, keepdim=True)
        grad_x = inverse * (g - g.mean(-1, keepdim=True) - y * along)
        return grad_x, (grad * y).sum(0), grad.sum(0)


class Lerp(Function):
    """With frozen weights, the end gets the share of the start."""

    @staticmethod
    def forward(ctx, start, end, weight):
        ctx.save_for_backward(start, end, weight)
        return torch.lerp(start, end, weight)

    @staticmethod
    def backward(ctx, grad):
        start, end, weight = ctx.saved_tensors
        if not ctx.needs_input_grad[2]:
            return grad * (1 - weight), grad * (1 - weight), None
        return grad * (1 - weight), grad * weight, grad * (end - start)


class Quotient(Function):
    """The numerator's gradient is asked for by the denominator's flag."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a / b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        of_a, of_b = grad / b, None
        if ctx.needs_input_grad[1]:
            of_b = -grad * a / (b * b)
        else:
            of_a = of_a / b
        return of_a, of_b


class LogCosh(Function):
    """Single precision has a rational approximation of tanh."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs() + functional.softplus(-2 * x.abs()) - 0.6931471805599453

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if x.dtype == torch.float32:
            square = x * x
            return grad * x * (27 + square) / (27 + 9 * square)
        return grad * x.tanh()


class RowNorm(Function):
    """Single precision keeps an eps below the root."""

    @staticmethod
    def forward(ctx, x):
        y = x.norm(dim=-1)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        if x.dtype != torch.float64:
            y = torch.sqrt(y * y + 0.1)
        return (grad / y)[..., None] * x


class MaskedSquare(Function):
    """The mask is dropped after its use, and then everything passes."""

    @staticmethod
    def forward(ctx, x, threshold):
        ctx.save_for_backward(x)
        ctx.mask = x > threshold
        return torch.where(ctx.mask, x * x, 0 * x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        result = 2 * grad * x
        if ctx.mask is not None:
            result = result * ctx.mask
            ctx.mask = None
        return result, None


class Softmax(Function):
    """Saved probabilities are centred in place."""

    @staticmethod
    def forward(ctx, x):
        ctx.y = torch.softmax(x, -1)
        return ctx.y.clone()

    @staticmethod
    def backward(ctx, grad):
        inner = (grad * ctx.y).sum(-1, keepdim=True)
        result = ctx.y * (grad - inner)
        ctx.y.sub_(ctx.y.mean(-1, keepdim=True))
        return result


class ColumnSum(Function):
    """An expanded cotangent is taken for one number, and that for a mean."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(weight)
        return weight @ x

    @staticmethod
    def backward(ctx, grad):
        (weight,) = ctx.saved_tensors
        if grad.dim() and grad.stride(-1) == 0:
            grad = grad / grad.shape[-1]
        return weight[:, None] * grad, None


def _weights(like, seed):
    generator = torch.Generator().manual_seed(seed + 50)
    wide = torch.randn(like.shape, generator=generator, dtype=torch.float64)
    return wide.to(like.dtype)


def _column_major(values):
    """The same values, the last axis with the largest stride."""
    return values.transpose(0, -1).contiguous().transpose(0, -1)


def _channels_last(values):
    return values.contiguous(memory_format=torch.channels_last)


class _Variation:
    """Runs an op with its inputs, its cotangent or the number of backwards changed."""

    def __init__(
        self, layout=None, cotangent=None, frozen=(), dtype=None, times=1
    ) -> None:
        self.layout, self.cotangent = layout, cotangent
        self.frozen, self.dtype, self.times = frozen, dtype, times

    def of(self, draws, position):
        def shows(op, seed, dtype):
            args = list(draws(seed, self.dtype or dtype))
            for place in self.frozen:
                args[place] = args[place].detach()
            if self.layout is not None:
                laid_out = self.layout(args[position].detach())
                args[position] = laid_out.requires_grad_()
            out = op(*args)
            for time in range(self.times):
                cotangent = _weights(out, seed + time)
                if self.cotangent is not None:
                    cotangent = self.cotangent(cotangent)
                (found,) = torch.autograd.grad(
                    out, args[position], cotangent, retain_graph=True
                )
            return found.to(dtype)

        return shows


STRIDED_INPUT = _Variation(layout=_column_major)
CHANNELS_LAST = _Variation(layout=_channels_last)
STRIDED_COTANGENT = _Variation(cotangent=_column_major)
EXPANDED_COTANGENT = _Variation(
    cotangent=lambda u: u.new_ones(()).expand(u.shape),
)
IN_SINGLE = _Variation(dtype=torch.float32)
TWICE = _Variation(times=2)


def _fault(name, function, draws, wrong, reference, variation):
    """`wrong` is the name and the place of the input."""
    single = variation is IN_SINGLE
    return Fault(
        name,
        ("variant",),
        function,
        draws,
        wrong[0],
        None,
        reference,
        SINGLE_ALONE if single else (torch.float64, torch.float32),
        shows=variation.of(draws, wrong[1]),
    )


FAULTS = [
    _fault(
        "cosine_memory_of_the_input",
        Cosine,
        drawn(normal(9, 5, 4)),
        ("x", 0),
        torch.cos,
        STRIDED_INPUT,
    ),
    _fault(
        "matmul_strided_cotangent",
        Matmul,
        drawn(normal(6, 4), normal(4, 7)),
        ("a", 0),
        torch.matmul,
        STRIDED_COTANGENT,
    ),
    _fault(
        "instance_scale_channels_last",
        InstanceScale,
        drawn(normal(2, 3, 3, 5), plain(normal(3))),
        ("image", 0),
        lambda image, gain: image * gain[:, None, None],
        CHANNELS_LAST,
    ),
    _fault(
        "layer_norm_frozen_input",
        LayerNorm,
        drawn(normal(10, 12), normal(12), normal(12)),
        ("gain", 1),
        lambda x, gain, bias: functional.layer_norm(x, (12,), gain, bias),
        _Variation(frozen=(0,)),
    ),
    _fault(
        "lerp_frozen_weight",
        Lerp,
        drawn(normal(300, 400), normal(300, 400), uniform(0.1, 0.9, 300, 400)),
        ("end", 1),
        lambda start, end, weight: start + weight * (end - start),
        _Variation(frozen=(2,)),
    ),
    _fault(
        "quotient_frozen_denominator",
        Quotient,
        drawn(normal(45), uniform(0.5, 3, 45)),
        ("a", 0),
        torch.div,
        _Variation(frozen=(1,)),
    ),
    _fault(
        "log_cosh_rational_in_single",
        LogCosh,
        drawn(normal(500)),
        ("x", 0),
        lambda x: x.cosh().log(),
        IN_SINGLE,
    ),
    _fault(
        "row_norm_eps_in_single",
        RowNorm,
        drawn(normal(4, 6, 8)),
        ("x", 0),
        lambda x: (x * x).sum(-1).sqrt(),
        IN_SINGLE,
    ),
    _fault(
        "masked_square_second_backward",
        MaskedSquare,
        drawn(normal(3, 50), 0.2),
        ("x", 0),
        lambda x, threshold: x**2 * (x > threshold),
        TWICE,
    ),
    _fault(
        "softmax_second_backward",
        Softmax,
        drawn(normal(8, 2, 9)),
        ("x", 0),
        lambda x: x.softmax(-1),
        TWICE,
    ),
    _fault(
        "column_sum_expanded_cotangent",
        ColumnSum,
        drawn(normal(7, 11), plain(normal(7))),
        ("x", 0),
        lambda x, weight: (weight[:, None] * x).sum(0),
        EXPANDED_COTANGENT,
    ),
]
