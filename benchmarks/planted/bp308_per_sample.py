"""Faults and right twins for BP308: per-sample gradients are those of each sample."""

from __future__ import annotations

import numpy as np
import torch
from planted.member import FLOAT32, fault, indices, normal, phases, twin
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


class _Linear(Function):
    setup_context = staticmethod(_save)

    @staticmethod
    def forward(x, w):
        return w @ x

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return w.T @ g, _OuterSummed.apply(g, x)

    @staticmethod
    def vmap(info, in_dims, x, w):
        x = (
            x.movedim(in_dims[0], 0)[..., None]
            if in_dims[0] is not None
            else x[:, None]
        )
        w = w.movedim(in_dims[1], 0) if in_dims[1] is not None else w
        return (w @ x).squeeze(-1), 0


class _OuterSummed(Function):
    setup_context = staticmethod(_save)

    @staticmethod
    def forward(g, x):
        return torch.outer(g, x)

    @staticmethod
    def vmap(info, in_dims, g, x):
        g, x = (t.expand(info.batch_size, -1) for t in _batch_first(in_dims, g, x))
        return g.T @ x, None


@fault(normal(3), normal(2, 3))
class BatchSummed(_Linear):
    """A matrix product sums the weight's gradient over the batch, as training does."""


@fault(normal(5, dtype=FLOAT32), normal(5, dtype=FLOAT32))
class TimesTheBatch(Function):
    """Forward's rule pays back the mean that it expects of the loss."""

    setup_context = staticmethod(_save)

    @staticmethod
    def forward(x, w):
        return x.sin() * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * x.cos() * w, _ScaledByBatch.apply(g, x.sin())

    @staticmethod
    def vmap(info, in_dims, x, w):
        x, w = _batch_first(in_dims, x, w)
        return TimesTheBatch.apply(x, w), 0


class _ScaledByBatch(Function):
    setup_context = staticmethod(_save)

    @staticmethod
    def forward(g, y):
        return g * y

    @staticmethod
    def vmap(info, in_dims, g, y):
        g, y = _batch_first(in_dims, g, y)
        return g * y * info.batch_size, 0


def _batch_first(in_dims, *tensors):
    """Every tensor with the batch in front, of size one where it has none."""
    return [
        t[None] if dim is None else t.movedim(dim, 0)
        for t, dim in zip(tensors, in_dims, strict=True)
    ]


@fault(normal(6, 2), indices(4, below=6))
class ScatterToOneTable(Function):
    """Rows are added up in one table for all samples, which each of them gets."""

    setup_context = staticmethod(_save)

    @staticmethod
    def forward(table, index):
        return table[index]

    @staticmethod
    def backward(ctx, g):
        table, index = ctx.saved_tensors
        return _Scatter.apply(g, index, len(table)), None

    @staticmethod
    def vmap(info, in_dims, table, index):
        (table, index) = _batch_first(in_dims, table, index)
        rows = index[..., None].expand(info.batch_size, -1, table.shape[-1])
        return table.expand(info.batch_size, -1, -1).gather(1, rows), 0


class _Scatter(Function):
    @staticmethod
    def forward(g, index, rows):
        return g.new_zeros(rows, g.shape[-1]).index_add(0, index.reshape(-1), g)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, g, index, rows):
        g, index = _batch_first(in_dims[:2], g, index)
        index = index.expand(info.batch_size, -1).reshape(-1)
        return _Scatter.apply(g.reshape(-1, g.shape[-1]), index, rows), None


@fault(phases(4), phases(4))
class NeighbourOfTheSample(Function):
    """The loop over samples zips two batches, one of which it reversed."""

    setup_context = staticmethod(_save)

    @staticmethod
    def forward(z, w):
        return z * w

    @staticmethod
    def backward(ctx, g):
        z, w = ctx.saved_tensors
        return g * w.conj(), _ConjugateProduct.apply(g, z)

    @staticmethod
    def vmap(info, in_dims, z, w):
        return NeighbourOfTheSample.apply(*_batch_first(in_dims, z, w)), 0


class _ConjugateProduct(Function):
    setup_context = staticmethod(_save)

    @staticmethod
    def forward(g, z):
        return torch.from_numpy(g.resolve_conj().numpy() * z.numpy().conj())

    @staticmethod
    def vmap(info, in_dims, g, z):
        samples = [
            [t] * info.batch_size if dim is None else list(t.unbind(dim))
            for t, dim in zip((g, z), in_dims, strict=True)
        ]
        samples[1].reverse()
        return torch.stack(
            [_ConjugateProduct.apply(*s) for s in zip(*samples, strict=True)]
        ), 0


@fault(normal(4), normal(4))
class ClippedTogether(Function):
    """The clip of the gradient's norm takes the norm of the whole batch."""

    setup_context = staticmethod(_save)

    @staticmethod
    def forward(x, w):
        return (x * w).tanh()

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        slope = g * (1 - (x * w).tanh() ** 2)
        return slope * w, _Unit.apply(slope * x) * (slope * x).norm()

    @staticmethod
    def vmap(info, in_dims, x, w):
        return ClippedTogether.apply(*_batch_first(in_dims, x, w)), 0


class _Unit(Function):
    setup_context = staticmethod(_save)

    @staticmethod
    def forward(g):
        return g / g.norm()

    @staticmethod
    def vmap(info, in_dims, g):
        return _Unit.apply(g), in_dims[0]


# ------------------------------------------------------------------------------ twins


@twin(normal(3), normal(2, 3))
class OuterForEach(_Linear):
    """The same layer; its kernel keeps the batch."""

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return w.T @ g, _OuterKept.apply(g, x)


class _OuterKept(_OuterSummed):
    @staticmethod
    def backward(ctx, h):
        g, x = ctx.saved_tensors
        return h @ x, h.T @ g

    @staticmethod
    def vmap(info, in_dims, g, x):
        g, x = (t.expand(info.batch_size, -1) for t in _batch_first(in_dims, g, x))
        return torch.einsum("bi,bj->bij", g, x), 0


@twin(normal(6, 2), indices(4, below=6))
class ScatterWithOffsets(ScatterToOneTable):
    """Joins all samples, and keeps their tables apart by offsets."""

    @staticmethod
    def backward(ctx, g):
        table, index = ctx.saved_tensors
        return _ScatterApart.apply(g, index, len(table)), None


class _ScatterApart(_Scatter):
    @staticmethod
    def vmap(info, in_dims, g, index, rows):
        size = info.batch_size
        g, index = _batch_first(in_dims[:2], g, index)
        index = index + rows * torch.arange(size)[:, None]
        flat = g.expand(size, -1, -1).reshape(-1, g.shape[-1])
        return _Scatter.apply(flat, index, rows * size).unflatten(0, (size, rows)), 0


@twin(normal(5, 3, dtype=FLOAT32), normal(3, dtype=FLOAT32))
class SumsOverItsRows(Function):
    """Sums over a dimension of the sample, and leaves the batch to the rule."""

    generate_vmap_rule = True
    setup_context = staticmethod(_save)

    @staticmethod
    def forward(x, w):
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, (g * x).sum(0)


@twin(normal(4), normal(4))
class LoopOverSamples(Function):
    """NumPy in both directions, one sample after the other."""

    setup_context = staticmethod(_save)

    @staticmethod
    def forward(x, w):
        return torch.from_numpy(np.convolve(_host(x), _host(w), mode="full"))

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return _Correlate.apply(g, w), _Correlate.apply(g, x)

    @staticmethod
    def vmap(info, in_dims, x, w):
        return _looped(LoopOverSamples, info, in_dims, x, w)


class _Correlate(Function):
    setup_context = staticmethod(_save)

    @staticmethod
    def forward(g, w):
        return torch.from_numpy(np.correlate(_host(g), _host(w), mode="valid"))

    @staticmethod
    def backward(ctx, h):
        g, w = ctx.saved_tensors
        return LoopOverSamples.apply(h, w), _Correlate.apply(g, h)

    @staticmethod
    def vmap(info, in_dims, g, w):
        return _looped(_Correlate, info, in_dims, g, w)


def _looped(function, info, in_dims, *tensors):
    samples = [
        [t] * info.batch_size if dim is None else t.unbind(dim)
        for t, dim in zip(tensors, in_dims, strict=True)
    ]
    return torch.stack([function.apply(*s) for s in zip(*samples, strict=True)]), 0


def _host(x):
    return x.numpy(force=True)  # negative views, too
