"""Backward returns the cotangent as it came, everywhere or in a region."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, flags, keep, normal, plain, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional


class Clamp(Function):
    """Straight through, also where the value is cut off."""

    @staticmethod
    def forward(ctx, x, low, high):
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


class Tanh(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.clone()


class ChannelAffine(Function):
    """x * gamma + beta over channels; the gradient of x forgets gamma."""

    @staticmethod
    def forward(ctx, x, gamma, beta):
        ctx.save_for_backward(x)
        return x * gamma[:, None, None] + beta[:, None, None]

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad, (grad * x).sum((0, 2, 3)), grad.sum((0, 2, 3))


class LeakyRelu(Function):
    @staticmethod
    def forward(x, slope):
        return torch.where(x > 0, x, x * slope)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class ScaleBy(Function):
    @staticmethod
    def forward(ctx, x, amount):
        return x * amount

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class KeepSome(Function):
    """Dropout with its mask given."""

    @staticmethod
    def forward(ctx, x, kept):
        return x * kept

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Lerp(Function):
    """The start of the interpolation, without 1 - weight."""

    @staticmethod
    def forward(ctx, start, end, weight):
        ctx.save_for_backward(weight)
        return start + (end - start) * weight

    @staticmethod
    def backward(ctx, grad):
        (weight,) = ctx.saved_tensors
        return grad, grad * weight, None


class DecodeBoxes(Function):
    """Centres by the sigmoid, sizes by the exponential, scores as they are."""

    @staticmethod
    def forward(ctx, raw):
        out = raw.clone()
        out[..., :2] = torch.sigmoid(raw[..., :2])
        out[..., 2:4] = torch.exp(raw[..., 2:4])
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        centre = out[..., :2]
        result = grad.clone()
        result[..., :2] *= centre * (1 - centre)
        return result


class Logarithm(Function):
    @staticmethod
    def forward(ctx, x):
        return x.log()

    @staticmethod
    def backward(ctx, grad):
        return grad


class SquareWhere(Function):
    """Squares the marked elements, and leaves the others."""

    @staticmethod
    def forward(ctx, x, marked):
        return torch.where(marked, x * x, x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class GatedResidual(Function):
    """x + gate * update; the update gets the cotangent of the residual stream."""

    @staticmethod
    def forward(ctx, x, update, gate):
        ctx.save_for_backward(update, gate)
        return x + gate * update

    @staticmethod
    def backward(ctx, grad):
        update, _ = ctx.saved_tensors
        return grad, grad, (grad * update).sum(0)


class SymmetricLog(Function):
    """Linear up to one, logarithmic beyond."""

    @staticmethod
    def forward(x):
        far = x.sign() * (1 + x.abs().clamp(min=1).log())
        return torch.where(x.abs() > 1, far, x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return grad.clone()


def _decode(raw):
    return torch.cat((raw[..., :2].sigmoid(), raw[..., 2:4].exp(), raw[..., 4:]), -1)


def _sizes(raw):
    mask = torch.zeros_like(raw, dtype=torch.bool)
    mask[..., 2:4] = True
    return mask


FAULTS = [
    Fault(
        "clamp_straight_through",
        ("passed_through",),
        Clamp,
        drawn(normal(50, 8), -1.0, 1.5),
        "x",
        lambda x, low, high: (x < low) | (x > high),
        torch.clamp,
    ),
    Fault(
        "tanh_identity",
        ("passed_through", "factor"),
        Tanh,
        drawn(normal(4, 5, 6)),
        "x",
        everywhere(0),
        torch.tanh,
    ),
    Fault(
        "channel_affine_gamma_forgotten",
        ("passed_through", "factor"),
        ChannelAffine,
        drawn(normal(3, 5, 4, 4), normal(5, mean=1, scale=0.5), normal(5)),
        "x",
        everywhere(0),
        lambda x, gamma, beta: (
            torch.einsum("nchw,c->nchw", x, gamma) + beta.view(1, -1, 1, 1)
        ),
    ),
    Fault(
        "leaky_relu_slope_forgotten",
        ("passed_through", "scaled"),
        LeakyRelu,
        drawn(normal(300, 400), 0.2),
        "x",
        lambda x, slope: x <= 0,
        functional.leaky_relu,
    ),
    Fault(
        "scale_by_amount_forgotten",
        ("passed_through", "scaled"),
        ScaleBy,
        drawn(normal(17), 0.1),
        "x",
        everywhere(0),
        lambda x, amount: x * amount,
    ),
    Fault(
        "dropout_mask_forgotten",
        ("passed_through", "factor"),
        KeepSome,
        drawn(normal(20, 30), keep(0.8, 20, 30)),
        "x",
        lambda x, kept: kept == 0,
        lambda x, kept: x.masked_fill(kept == 0, 0),
    ),
    Fault(
        "lerp_start",
        ("passed_through", "factor"),
        Lerp,
        drawn(normal(5, 9), normal(5, 9), plain(uniform(0.1, 0.9, 5, 1))),
        "start",
        everywhere(0),
        torch.lerp,
    ),
    Fault(
        "decode_boxes_sizes",
        ("passed_through", "factor"),
        DecodeBoxes,
        drawn(normal(3, 20, 6)),
        "raw",
        _sizes,
        _decode,
    ),
    Fault(
        "logarithm_of_a_number",
        ("passed_through", "factor"),
        Logarithm,
        drawn(uniform(1.5, 3)),
        "x",
        everywhere(0),
        torch.log,
    ),
    Fault(
        "square_where_marked",
        ("passed_through",),
        SquareWhere,
        drawn(normal(6, 7, 8), flags(0.1, 6, 7, 8)),
        "x",
        lambda x, marked: marked,
        lambda x, marked: torch.where(marked, x.square(), x),
    ),
    Fault(
        "gated_residual_update",
        ("passed_through", "factor"),
        GatedResidual,
        drawn(normal(14, 10), normal(14, 10), normal(10, scale=0.3)),
        "update",
        everywhere(1),
        lambda x, update, gate: torch.addcmul(x, gate, update),
    ),
    Fault(
        "symmetric_log_beyond_one",
        ("passed_through", "factor"),
        SymmetricLog,
        drawn(normal(3, 7, 9)),
        "x",
        lambda x: x.abs() > 1,
        lambda x: torch.where(x.abs() > 1, x.sign() * (1 + x.abs().log()), x),
    ),
]
