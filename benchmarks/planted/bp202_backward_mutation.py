"""Faults and right twins for BP202: backward leaves what it is given unchanged."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, fixed, normal, twin, uniform
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


@fault(normal(20, dtype=FLOAT32))
class LeakyRectifier(Function):
    """The incoming gradient is masked in place."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, 0.1 * x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        g[x <= 0] *= 0.1
        return g


@fault(normal(15))
class Logistic(Function):
    """The saved output is turned into the derivative, "to save memory"."""

    @staticmethod
    def forward(ctx, x):
        y = torch.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        y = ctx.saved_tensors[0].detach()
        return y.data.mul_(1 - y) * g


@fault(normal(6, 5))
class NumpyRows(Function):
    """An array that shares the cotangent's memory."""

    @staticmethod
    def forward(ctx, x):
        return x * torch.arange(1, 7, dtype=x.dtype)[:, None]

    @staticmethod
    def backward(ctx, g):
        array = g.numpy()
        for row in range(6):
            array[row] *= row + 1
        return torch.from_numpy(array.copy())


@fault(normal(4, 6), normal(3, 6))
class UnitWeight(Function):
    """The caller's weight is normalised in backward."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ (w / w.norm()).mT

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        size = w.norm()
        unit = w.data.div_(size)
        of_unit = g.mT @ x
        return g @ unit, (of_unit - unit * (of_unit * unit).sum()) / size


@fault(normal(10), normal(10))
class SumAndDifference(Function):
    """The second output's cotangent is added into the first's."""

    @staticmethod
    def forward(ctx, x, y):
        return x + y, x - y

    @staticmethod
    def backward(ctx, of_sum, of_difference):
        of_y = of_sum - of_difference
        return of_sum.add_(of_difference), of_y


@fault(normal(3, 8, dtype=FLOAT32))
class Flattened(Function):
    """reshape gives a view wherever it can."""

    @staticmethod
    def forward(ctx, x):
        return -x.reshape(-1)

    @staticmethod
    def backward(ctx, g):
        return g.reshape(3, 8).neg_()


# ------------------------------------------------------------------------------ twins


@twin(normal(20, dtype=FLOAT32))
class ClonedFirst(Function):
    """In place, on a clone of the cotangent."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, 0.1 * x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        of_x = g.clone()
        of_x[x <= 0] *= 0.1
        return of_x


@twin(normal(6, 4), normal(4, 4))
class ProductInPlace(Function):
    """In place, on products that backward has made."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return 0.5 * (x @ w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        of_x = g @ w.mT
        of_w = torch.empty_like(w)
        torch.mm(x.mT, g, out=of_w)
        return of_x.mul_(0.5), of_w.mul_(0.5)


@twin(normal(8))
class Untouched(Function):
    """Hands the very cotangent on, twice."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g


@twin(normal(9, 5, dtype=FLOAT32), fixed(uniform(9, dtype=FLOAT32)))
class Scratch(Function):
    """A scratch tensor on ctx, written anew by each backward before it is read."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(weight)
        ctx.scratch = torch.empty_like(x)
        return x * weight[:, None]

    @staticmethod
    def backward(ctx, g):
        (weight,) = ctx.saved_tensors
        torch.mul(g, weight[:, None], out=ctx.scratch)
        return ctx.scratch.clone(), None


@twin(normal(4, 6))
class NumpyCopy(Function):
    """A writable array, and a copy."""

    @staticmethod
    def forward(ctx, x):
        return x.cumsum(1)

    @staticmethod
    def backward(ctx, g):
        array = g.numpy()[:, ::-1].copy()
        array.cumsum(1, out=array)
        return torch.from_numpy(array[:, ::-1].copy())


@twin(normal(3, 5))
class ZeroedDiagonal(Function):
    """masked_fill and not masked_fill_."""

    @staticmethod
    def forward(ctx, x):
        y = x @ x.mT
        ctx.save_for_backward(x)
        return y - torch.diag(y.diagonal())

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        g = g.masked_fill(torch.eye(len(g), dtype=torch.bool), 0.0)
        return (g + g.mT) @ x
