"""Faults and right twins for BP304: `jacrev` gives the Jacobian of eager's rows."""

from __future__ import annotations

import numpy as np
import torch
from planted.member import FLOAT32, fault, normal, twin, uniform
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


@fault(normal(4, 4))
class ColumnsForRows(Function):
    """Backward's kernel takes a scale without a batch for one of columns."""

    @staticmethod
    def forward(x):
        return x * torch.arange(1, len(x) + 1, dtype=x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.scale = torch.arange(1, len(output) + 1, dtype=output.dtype)

    @staticmethod
    def backward(ctx, g):
        return _ScaleColumns.apply(g, ctx.scale)


class _ScaleColumns(Function):
    @staticmethod
    def forward(x, scale):
        return x * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x, scale):
        batched = in_dims[1] is not None
        scale = scale.movedim(in_dims[1], 0).unsqueeze(1) if batched else scale[:, None]
        return x.movedim(in_dims[0], 0) * scale, 0


@fault(normal(5, dtype=FLOAT32))
class SumOverTheBatch(Function):
    """The transpose of a running sum runs on from one cotangent into the next."""

    @staticmethod
    def forward(x):
        return x.cumsum(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return _ReversedSum.apply(g)


class _ReversedSum(Function):
    @staticmethod
    def forward(g):
        return torch.from_numpy(np.cumsum(g.numpy()[::-1])[::-1].copy())

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, g):
        g = g.movedim(in_dims[0], 0)
        return _ReversedSum.apply(g.reshape(-1)).view(g.shape), 0


@torch.library.custom_op("planted::rotate_back", mutates_args=())
def _rotate_back(g: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    a, b = g.unbind(-1)
    cos, sin = angle.cos(), angle.sin()
    return torch.stack([cos * a + sin * b, cos * b - sin * a], -1)


_rotate_back.register_fake(lambda g, angle: torch.empty_like(g))


@_rotate_back.register_vmap
def _rotate_back_vmap(info, in_dims, g, angle):
    """The batch of cotangents is put where each of them is rotated by its neighbour."""
    g = g.movedim(in_dims[0], 0)
    return _rotate_back(g.roll(1, 0), angle), 0


@fault(normal(3, 2))
class RotatedAmongRows(Function):
    @staticmethod
    def forward(x):
        a, b = x.unbind(-1)
        angle = torch.arange(len(x), dtype=x.dtype)
        cos, sin = angle.cos(), angle.sin()
        return torch.stack([cos * a - sin * b, cos * b + sin * a], -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.angle = torch.arange(len(output), dtype=output.dtype)

    @staticmethod
    def backward(ctx, g):
        return _rotate_back(g, ctx.angle)


@fault(normal(4), normal(4, 4))
class TransposedWhenShared(Function):
    """A matrix without a batch is expanded the wrong way round."""

    @staticmethod
    def forward(x, w):
        return w @ x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return _VectorMatrix.apply(g, w), g.unsqueeze(-1) * x


class _VectorMatrix(Function):
    @staticmethod
    def forward(v, w):
        return v @ w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def vmap(info, in_dims, v, w):
        v = v.movedim(in_dims[0], 0) if in_dims[0] is not None else v[None]
        if in_dims[1] is None:
            return torch.einsum("bi,ji->bj", v, w), 0
        return torch.einsum("bi,bij->bj", v, w.movedim(in_dims[1], 0)), 0


@fault(uniform(6, low=0.2, high=1.5))
class CoarseForManyCotangents(Function):
    """Many cotangents at once are handled with an expansion for large arguments."""

    @staticmethod
    def forward(x):
        return x.lgamma()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if torch._C._functorch.is_batchedtensor(g):
            return g * ((x + 1).log() - 1 / (2 * x + 2) - 1 / x)
        return g * x.digamma()


# ------------------------------------------------------------------------------ twins


@twin(normal(4), normal(4, 4))
class EachInputByItself(Function):
    """A kernel with a rule of its own, for a batch of either input or of both."""

    @staticmethod
    def forward(x, w):
        return w @ x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return _AnyVectorMatrix.apply(g, w), g.unsqueeze(-1) * x


class _AnyVectorMatrix(_VectorMatrix):
    @staticmethod
    def vmap(info, in_dims, v, w):
        v = v.movedim(in_dims[0], 0) if in_dims[0] is not None else v[None]
        w = w.movedim(in_dims[1], 0) if in_dims[1] is not None else w[None]
        return (v.unsqueeze(-2) @ w).squeeze(-2), 0


@twin(normal(5, dtype=FLOAT32))
class LoopOverCotangents(Function):
    """An opaque kernel in backward, called once a cotangent."""

    @staticmethod
    def forward(x):
        return x.cumsum(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return _LoopedSum.apply(g)


class _LoopedSum(Function):
    @staticmethod
    def forward(g):
        return torch.from_numpy(np.cumsum(g.numpy(force=True)[::-1])[::-1].copy())

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, g):
        return torch.stack([_LoopedSum.apply(row) for row in g.unbind(in_dims[0])]), 0


@twin(normal(3, dtype=FLOAT32), normal(3, dtype=FLOAT32))
class PullbackByTorch(Function):
    """Writes no formula: backward pulls through the same code once more."""

    @staticmethod
    def forward(x, y):
        return _angle(x, y)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return torch.func.vjp(_angle, *ctx.saved_tensors)[1](g)


def _angle(x, y):
    return torch.atan2(x, y.exp()).cumsum(0)


@twin(normal(4))
class ScalarSquare(Function):
    """Reduces without a dimension, and backward expands, also a batch of cotangents."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.square().sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g.expand(x.shape)


@twin(normal(5))
class LooksAtValues(Function):
    """Asks whether its cotangent is zero, which a batch of them refuses to answer."""

    @staticmethod
    def forward(x):
        return x.cosh()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.sinh() if g.any() else torch.zeros_like(x)
