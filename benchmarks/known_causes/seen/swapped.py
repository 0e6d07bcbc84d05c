"""The gradients of two inputs stand in each other's place."""

from __future__ import annotations

from inspect import signature

import torch
from known_causes.draws import drawn, flags, normal, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function
from torch.nn import functional


class Subtract(Function):
    @staticmethod
    def forward(ctx, a, b):
        return a - b

    @staticmethod
    def backward(ctx, grad):
        return -grad, grad


class Power(Function):
    @staticmethod
    def forward(ctx, base, exponent):
        y = base**exponent
        ctx.save_for_backward(base, exponent, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        base, exponent, y = ctx.saved_tensors
        grad_base = grad * exponent * y / base
        grad_exponent = grad * y * base.log()
        return grad_exponent, grad_base


class Divide(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a / b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return -grad * a / b**2, grad / b


class CosineSimilarity(Function):
    @staticmethod
    def forward(ctx, a, b):
        na, nb = a.norm(dim=-1, keepdim=True), b.norm(dim=-1, keepdim=True)
        ua, ub = a / na, b / nb
        y = (ua * ub).sum(-1)
        ctx.save_for_backward(ua, ub, na, nb, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        ua, ub, na, nb, y = ctx.saved_tensors
        g, y = grad[..., None], y[..., None]
        of_a, of_b = g * (ub - y * ua) / na, g * (ua - y * ub) / nb
        return of_b, of_a


class Where(Function):
    @staticmethod
    def forward(ctx, mask, a, b):
        ctx.save_for_backward(mask)
        return torch.where(mask, a, b)

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return None, grad.masked_fill(mask, 0), grad.masked_fill(~mask, 0)


class Coupling(Function):
    """x exp(s) + t, as flows have it."""

    @staticmethod
    def forward(ctx, x, s, t):
        scaled = x * s.exp()
        ctx.save_for_backward(s, scaled)
        return scaled + t

    @staticmethod
    def backward(ctx, grad):
        s, scaled = ctx.saved_tensors
        return grad * s.exp(), grad, grad * scaled


class Divergence(Function):
    """Of Kullback and Leibler, between two rows of logits."""

    @staticmethod
    def forward(ctx, p, q):
        log_p, log_q = p.log_softmax(-1), q.log_softmax(-1)
        each = log_p.exp() * (log_p - log_q)
        y = each.sum(-1)
        ctx.save_for_backward(log_p, log_q, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        log_p, log_q, y = ctx.saved_tensors
        g = grad[..., None]
        of_p = g * log_p.exp() * (log_p - log_q - y[..., None])
        of_q = g * (log_q.exp() - log_p.exp())
        return of_q, of_p


class Outer(Function):
    @staticmethod
    def forward(ctx, u, v):
        ctx.save_for_backward(u, v)
        return torch.outer(u, v)

    @staticmethod
    def backward(ctx, grad):
        u, v = ctx.saved_tensors
        return grad.t() @ u, grad @ v


class CellState(Function):
    """f c + i g, as a recurrent cell has it."""

    @staticmethod
    def forward(ctx, f, c, i, g):
        ctx.save_for_backward(f, c, i, g)
        return f * c + i * g

    @staticmethod
    def backward(ctx, grad):
        f, c, i, g = ctx.saved_tensors
        return grad * c, grad * f, grad * i, grad * g


class LogAddExp(Function):
    @staticmethod
    def forward(a, b):
        return torch.logaddexp(a, b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        share = torch.sigmoid(a - b)
        return grad * (1 - share), grad * share


class SpecialProduct(Function):
    """Sums of the products of rows and of their logarithm: two outputs."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b.log(), (a - b * b).sum(-1)

    @staticmethod
    def backward(ctx, grad_each, grad_sum):
        a, b = ctx.saved_tensors
        along = grad_sum[..., None]
        of_a = grad_each * b.log() + along
        of_b = grad_each * a / b - 2 * along * b
        return of_b, of_a


def _fault(name, function, inputs, pair, reference, *others):
    """`pair` is the two inputs in question, of which the first is looked at."""
    names = [n for n in signature(function.forward).parameters if n != "ctx"]
    return Fault(
        name,
        ("swapped", *others),
        function,
        inputs,
        pair[0],
        everywhere(names.index(pair[0])),
        reference,
        also_wrong=(pair[1],),
    )


FAULTS = [
    _fault(
        "subtract",
        Subtract,
        drawn(normal(13, 7), normal(13, 7)),
        "ab",
        torch.sub,
        # Each is true of one of the two.
        "negated",
        "passed_through",
    ),
    _fault(
        "power_base_and_exponent",
        Power,
        drawn(uniform(0.5, 3, 40), normal(40)),
        ("base", "exponent"),
        torch.pow,
    ),
    _fault(
        "divide",
        Divide,
        drawn(normal(2, 3, 4, 5), uniform(0.5, 2, 2, 3, 4, 5)),
        "ba",
        lambda a, b: a * b.reciprocal(),
    ),
    _fault(
        "cosine_similarity_of_rows",
        CosineSimilarity,
        drawn(normal(9, 6), normal(9, 6)),
        "ab",
        functional.cosine_similarity,
    ),
    _fault(
        "where_by_a_mask",
        Where,
        drawn(flags(0.4, 60, 50), normal(60, 50), normal(60, 50)),
        "ab",
        torch.where,
    ),
    _fault(
        "coupling_scale_and_shift",
        Coupling,
        drawn(normal(12, 4), normal(12, 4, scale=0.5), normal(12, 4)),
        "st",
        lambda x, s, t: torch.addcmul(t, x, s.exp()),
        "passed_through",  # the shift's gradient is the cotangent
    ),
    _fault(
        "divergence_of_logits",
        Divergence,
        drawn(normal(7, 11), normal(7, 11)),
        "pq",
        lambda p, q: functional.kl_div(
            q.log_softmax(-1), p.log_softmax(-1), reduction="none", log_target=True
        ).sum(-1),
    ),
    _fault(
        "outer_product_of_equal_lengths",
        Outer,
        drawn(normal(16), normal(16)),
        "uv",
        lambda u, v: u[:, None] * v,
    ),
    _fault(
        "cell_state_input_and_gate",
        CellState,
        drawn(*[normal(3, 20) for _ in range(4)]),
        "ig",
        lambda f, c, i, g: torch.addcmul(f * c, i, g),
        "factor",
    ),
    _fault(
        "log_add_exp_shares",
        LogAddExp,
        drawn(normal(150_000), normal(150_000)),
        "ab",
        lambda a, b: (a.exp() + b.exp()).log(),
    ),
    _fault(
        "products_two_outputs",
        SpecialProduct,
        drawn(normal(6, 5), uniform(0.5, 2, 6, 5)),
        "ab",
        lambda a, b: (torch.xlogy(a, b), a.sum(-1) - (b * b).sum(-1)),
    ),
]
