"""Complex numbers, and a conjugate that is missing."""

from __future__ import annotations

import torch
from known_causes.draws import drawn, flags, normal, plain, uniform
from known_causes.fault import Fault, everywhere
from torch.autograd import Function

COMPLEX = (torch.complex128, torch.complex64)


class Cube(Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z**3

    @staticmethod
    def backward(ctx, grad):
        (z,) = ctx.saved_tensors
        return grad * 3 * z**2


class Apply(Function):
    """A matrix for each vector; the matrix' gradient is a plain outer product."""

    @staticmethod
    def forward(ctx, matrix, vector):
        ctx.save_for_backward(matrix, vector)
        return torch.einsum("bij,bj->bi", matrix, vector)

    @staticmethod
    def backward(ctx, grad):
        matrix, vector = ctx.saved_tensors
        return (
            grad[..., :, None] * vector[..., None, :],
            torch.einsum("bij,bi->bj", matrix.conj(), grad),
        )


class Sine(Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z.sin()

    @staticmethod
    def backward(ctx, grad):
        (z,) = ctx.saved_tensors
        return grad * z.cos()


class Power(Function):
    """Weighted squared modulus: a real output, whose gradient is along z itself."""

    @staticmethod
    def forward(ctx, z, weight):
        ctx.save_for_backward(z, weight)
        return (weight * z.abs().square()).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        z, weight = ctx.saved_tensors
        return 2 * grad[..., None] * weight * z.conj(), None


class Divide(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a / b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad / b, (-grad * (a / b**2).conj())


class Outer(Function):
    @staticmethod
    def forward(ctx, u, v):
        ctx.save_for_backward(u, v)
        return torch.outer(u, v)

    @staticmethod
    def backward(ctx, grad):
        u, v = ctx.saved_tensors
        return grad @ v, grad.t() @ u.conj()


class Logarithm(Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z.log()

    @staticmethod
    def backward(ctx, grad):
        (z,) = ctx.saved_tensors
        return grad / z


class Tanh(Function):
    @staticmethod
    def forward(ctx, z):
        y = z.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y)


class Resonator(Function):
    """1 / (z - pole), for poles that are given."""

    @staticmethod
    def forward(z, pole):
        return 1 / (z - pole)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return -grad * y * y, None


class MarkedSquare(Function):
    """Squared where marked; the conjugate is in the other branch alone."""

    @staticmethod
    def forward(ctx, z, marked):
        ctx.save_for_backward(z, marked)
        return torch.where(marked, z * z, z * (1 + 2j))

    @staticmethod
    def backward(ctx, grad):
        z, marked = ctx.saved_tensors
        return torch.where(marked, grad * 2 * z, grad * (1 - 2j)), None


def _real_weight(seed, dtype):
    (weight,) = drawn(plain(uniform(0.5, 2, 9)))(seed, dtype.to_real())
    return weight


FAULTS = [
    Fault(
        "complex_cube",
        ("conjugate",),
        Cube,
        drawn(normal(3, 4, 5)),
        "z",
        everywhere(0),
        lambda z: z * z * z,
        COMPLEX,
    ),
    Fault(
        "complex_matrix_for_each_vector",
        ("conjugate",),
        Apply,
        drawn(normal(6, 3, 4), normal(6, 4)),
        "matrix",
        everywhere(0),
        lambda matrix, vector: (matrix * vector[:, None]).sum(-1),
        COMPLEX,
    ),
    Fault(
        "complex_sine",
        ("conjugate",),
        Sine,
        drawn(normal(41)),
        "z",
        everywhere(0),
        torch.sin,
        COMPLEX,
    ),
    Fault(
        "weighted_squared_modulus",
        ("conjugate",),
        Power,
        lambda seed, dtype: (
            drawn(normal(7, 9))(seed, dtype)[0],
            _real_weight(seed, dtype),
        ),
        "z",
        everywhere(0),
        lambda z, weight: (weight * (z.real**2 + z.imag**2)).sum(-1),
        COMPLEX,
    ),
    Fault(
        "complex_divide_numerator",
        ("conjugate",),
        Divide,
        drawn(normal(30, 20), normal(30, 20, mean=3)),
        "a",
        everywhere(0),
        lambda a, b: a * b.reciprocal(),
        COMPLEX,
    ),
    Fault(
        "complex_outer_product_first_factor",
        ("conjugate",),
        Outer,
        drawn(normal(8), normal(11)),
        "u",
        everywhere(0),
        lambda u, v: u[:, None] * v,
        COMPLEX,
    ),
    Fault(
        "complex_logarithm",
        ("conjugate",),
        Logarithm,
        drawn(normal(5, 16, mean=2, scale=0.5)),
        "z",
        everywhere(0),
        torch.log,
        COMPLEX,
    ),
    Fault(
        "complex_tanh",
        ("conjugate",),
        Tanh,
        drawn(normal(100, 1000, scale=0.4)),
        "z",
        everywhere(0),
        lambda z: z.sinh() / z.cosh(),
        COMPLEX,
    ),
    Fault(
        "complex_resonator",
        ("conjugate",),
        Resonator,
        drawn(normal(2, 3, 4, 5), plain(normal(5, mean=6))),
        "z",
        everywhere(0),
        lambda z, pole: (z - pole).reciprocal(),
        COMPLEX,
    ),
    Fault(
        "complex_square_where_marked",
        ("conjugate",),
        MarkedSquare,
        drawn(normal(18, 25), flags(0.25, 18, 25)),
        "z",
        lambda z, marked: marked,
        lambda z, marked: torch.where(marked, z**2, z + 2j * z),
        COMPLEX,
    ),
]
