"""Faults and right twins for BP103: forward mode agrees with backward."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, indices, normal, phases, twin, uniform
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


class _Product(Function):
    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x


@fault(normal(14), normal(14))
class ForgottenTangent(_Product):
    """The tangent of the second input is ignored."""

    @staticmethod
    def jvp(ctx, of_x, of_y):
        _, y = ctx.saved_tensors
        return of_x * y


@fault(normal(4, 5, dtype=FLOAT32), normal(5, 5, dtype=FLOAT32))
class TransposedWeight(Function):
    """jvp multiplies with the matrix that backward multiplies with."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        ctx.save_for_forward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.mT, x.mT @ g

    @staticmethod
    def jvp(ctx, of_x, of_w):
        x, w = ctx.saved_tensors
        return of_x @ w.mT + x @ of_w


class _LogSoftmax(Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.log_softmax(x, -1)
        ctx.save_for_backward(y)
        ctx.save_for_forward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g - y.exp() * g.sum(-1, keepdim=True)


@fault(normal(3, 7))
class LogSoftmaxAsBackward(_LogSoftmax):
    """Backward's formula again, as for softmax; this Jacobian is not symmetric."""

    @staticmethod
    def jvp(ctx, tangent):
        (y,) = ctx.saved_tensors
        return tangent - y.exp() * tangent.sum(-1, keepdim=True)


class _ComplexSquare(Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        ctx.save_for_forward(z)
        return z * z

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return 2 * g * z.conj()


@fault(phases(9))
class ConjugatedTangent(_ComplexSquare):
    """The conjugate belongs into backward only."""

    @staticmethod
    def jvp(ctx, tangent):
        (z,) = ctx.saved_tensors
        return 2 * tangent * z.conj()


class _Polar(Function):
    @staticmethod
    def forward(r, angle):
        return r * angle.cos(), r * angle.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g_x, g_y):
        r, angle = ctx.saved_tensors
        of_r = g_x * angle.cos() + g_y * angle.sin()
        return of_r, r * (g_y * angle.cos() - g_x * angle.sin())


@fault(uniform(6, low=1, high=2), normal(6))
class SwappedOutputs(_Polar):
    """The tangents of the outputs come in the wrong order."""

    @staticmethod
    def jvp(ctx, of_r, of_angle):
        r, angle = ctx.saved_tensors
        of_x = of_r * angle.cos() - r * of_angle * angle.sin()
        of_y = of_r * angle.sin() + r * of_angle * angle.cos()
        return of_y, of_x


@fault(normal(5, 8), -1)
class MeanSquare(Function):
    """A sum where forward takes the mean."""

    @staticmethod
    def forward(ctx, x, dim):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        ctx.dim = dim
        return x.square().mean(dim)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g.unsqueeze(ctx.dim) * 2 * x / x.shape[ctx.dim], None

    @staticmethod
    def jvp(ctx, tangent, _):
        (x,) = ctx.saved_tensors
        return (2 * x * tangent).sum(ctx.dim)


@fault(
    uniform(4, 4, low=2, high=3),
    normal(4, 3),
)
class Solve(Function):
    """The tangent of the matrix has lost its minus sign."""

    @staticmethod
    def forward(ctx, a, b):
        shifted = a + 4 * torch.eye(len(a), dtype=a.dtype)
        x = torch.linalg.solve(shifted, b)
        ctx.save_for_backward(shifted, x)
        ctx.save_for_forward(shifted, x)
        return x

    @staticmethod
    def backward(ctx, g):
        shifted, x = ctx.saved_tensors
        of_b = torch.linalg.solve(shifted.mT, g)
        return -of_b @ x.mT, of_b

    @staticmethod
    def jvp(ctx, of_a, of_b):
        shifted, x = ctx.saved_tensors
        return torch.linalg.solve(shifted, of_b + of_a @ x)


# ------------------------------------------------------------------------------ twins


@twin(normal(3, 7, dtype=FLOAT32))
class SoftmaxAsBackward(Function):
    """Backward's formula again, and this Jacobian is symmetric."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        ctx.save_for_forward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(-1, keepdim=True))

    @staticmethod
    def jvp(ctx, tangent):
        return SoftmaxAsBackward.backward(ctx, tangent)


@twin(normal(3, 7))
class LogSoftmax(_LogSoftmax):
    """Another formula than backward's."""

    @staticmethod
    def jvp(ctx, tangent):
        (y,) = ctx.saved_tensors
        return tangent - (y.exp() * tangent).sum(-1, keepdim=True)


@twin(phases(9))
class ComplexSquare(_ComplexSquare):
    """No conjugate, though backward has one."""

    @staticmethod
    def jvp(ctx, tangent):
        (z,) = ctx.saved_tensors
        return 2 * tangent * z


@twin(normal(14), normal(14))
class BackwardOnly(_Product):
    """No jvp: forward mode is refused."""


@twin(normal(14), normal(14))
class OneTangentOnly(_Product):
    """Refuses what it has not implemented."""

    @staticmethod
    def jvp(ctx, of_x, of_y):
        raise NotImplementedError("forward mode is planned")


@twin(normal(6, 4), indices(9, below=6))
class Gather(Function):
    """An integer input, whose tangent is None."""

    @staticmethod
    def forward(x, rows):
        return x[rows]

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, rows = inputs
        ctx.save_for_backward(rows)
        ctx.save_for_forward(rows)
        ctx.shape = x.shape

    @staticmethod
    def backward(ctx, g):
        (rows,) = ctx.saved_tensors
        return g.new_zeros(ctx.shape).index_add(0, rows, g), None

    @staticmethod
    def jvp(ctx, of_x, _):
        (rows,) = ctx.saved_tensors
        return of_x[rows]


@twin(normal(5, 6))
class BestAndWhere(Function):
    """An output without a tangent."""

    @staticmethod
    def forward(ctx, x):
        best, at = x.max(1)
        ctx.mark_non_differentiable(at)
        ctx.save_for_backward(at)
        ctx.save_for_forward(at)
        ctx.width = x.shape[1]
        return best, at

    @staticmethod
    def backward(ctx, g, _):
        (at,) = ctx.saved_tensors
        spread = g.new_zeros(len(g), ctx.width)
        return spread.scatter(1, at[:, None], g[:, None])

    @staticmethod
    def jvp(ctx, tangent):
        (at,) = ctx.saved_tensors
        return tangent.gather(1, at[:, None])[:, 0], None


@twin(normal(11, dtype=FLOAT32))
class WideInside(Function):
    """Forward mode goes through float64, backward through float32."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x.atan()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g / (1 + x * x)

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return (tangent.double() / (1 + x.double() ** 2)).to(x.dtype)
