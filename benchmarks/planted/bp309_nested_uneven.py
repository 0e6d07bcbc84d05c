"""Faults and right twins for BP309: nested and uneven batches give the same numbers."""

from __future__ import annotations

import numpy as np
import torch
from planted.member import FLOAT32, fault, normal, phases, twin
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


class _Product(Function):
    setup_context = staticmethod(_save)

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y.conj(), g * x.conj()


@fault(normal(4, 1), normal(4, 1))
class NoneTakenForZero(_Product):
    """Keeps the batch second, and takes no batch for one in front."""

    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (t.movedim(d or 0, 1) for t, d in zip((x, y), in_dims, strict=True))
        return NoneTakenForZero.apply(x, y), 1


@fault(normal(4, 2, dtype=FLOAT32), normal(4, 2, dtype=FLOAT32))
class DimensionOfTheFirst(_Product):
    """The second input is moved from where the first one's batch is."""

    @staticmethod
    def vmap(info, in_dims, x, y):
        if None in in_dims:
            x = x.unsqueeze(0) if in_dims[0] is None else x.movedim(in_dims[0], 0)
            y = y.unsqueeze(0) if in_dims[1] is None else y.movedim(in_dims[1], 0)
            return DimensionOfTheFirst.apply(x, y), 0
        x, y = x.movedim(in_dims[0], 0), y.movedim(in_dims[0], 0)
        return DimensionOfTheFirst.apply(x, y.reshape(x.shape)), 0


@fault(normal(4), normal(4))
class SizeOnTheClass(Function):
    """The rule tells forward the batch size through the class, for one level only."""

    setup_context = staticmethod(_save)
    batch_size = None

    @staticmethod
    def forward(x, y):
        size, SizeOnTheClass.batch_size = SizeOnTheClass.batch_size, None
        if size is None:
            return x - y.mean()
        means = y.reshape(size, -1).mean(1)
        return x - means.view(size, *[1] * (x.dim() - 1))

    @staticmethod
    def backward(ctx, g):
        return g, (-g.sum() / g.numel()).expand(g.shape)

    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = (
            t.expand(info.batch_size, *t.shape) if d is None else t.movedim(d, 0)
            for t, d in zip((x, y), in_dims, strict=True)
        )
        SizeOnTheClass.batch_size = info.batch_size
        return SizeOnTheClass.apply(x, y), 0


@fault(normal(3, 3), normal(3, 3))
class BatchedMatrixProduct(Function):
    """A stack on the right of a single matrix is multiplied from the wrong side."""

    setup_context = staticmethod(_save)

    @staticmethod
    def forward(a, b):
        return a @ b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g @ b.mT, a.mT @ g

    @staticmethod
    def vmap(info, in_dims, a, b):
        a = a if in_dims[0] is None else a.movedim(in_dims[0], 0)
        b = b if in_dims[1] is None else b.movedim(in_dims[1], 0)
        return BatchedMatrixProduct.apply(
            *((b, a) if in_dims[0] is None else (a, b))
        ), 0


@fault(phases(3), phases(3))
class OnlyTheFirstOfTheShared(_Product):
    """Shortens a batch that it takes for an expanded one: where the other has none."""

    @staticmethod
    def vmap(info, in_dims, x, y):
        x = x.unsqueeze(0) if in_dims[0] is None else x.movedim(in_dims[0], 0)
        y = y.unsqueeze(0) if in_dims[1] is None else y.movedim(in_dims[1], 0)
        if in_dims[0] is None:
            y = y[:1]
        out = OnlyTheFirstOfTheShared.apply(x, y)
        return out.expand(info.batch_size, *out.shape[1:]), 0


@fault(normal(4, 5))
class ReshapedBatch(Function):
    """A batch in the last dimension is reshaped to the front, which is no transpose."""

    @staticmethod
    def forward(x):
        return torch.from_numpy(np.cumsum(x.numpy(), axis=-1))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g.flip(-1).cumsum(-1).flip(-1)

    @staticmethod
    def vmap(info, in_dims, x):
        sizes = [n for k, n in enumerate(x.shape) if k != in_dims[0]]
        return ReshapedBatch.apply(x.reshape(info.batch_size, *sizes)), 0


# ------------------------------------------------------------------------------ twins


@twin(normal(3), normal(3))
class EachMovedByItself(_Product):
    """Gives an input without a batch a dimension of size one."""

    @staticmethod
    def vmap(info, in_dims, x, y):
        x = x.unsqueeze(0) if in_dims[0] is None else x.movedim(in_dims[0], 0)
        y = y.unsqueeze(0) if in_dims[1] is None else y.movedim(in_dims[1], 0)
        return EachMovedByItself.apply(x, y), 0


@twin(normal(4, 2, dtype=FLOAT32), normal(4, 2, dtype=FLOAT32))
class LeftInPlace(_Product):
    """Moves the second input to the first one's dimension, wherever that is."""

    @staticmethod
    def vmap(info, in_dims, x, y):
        where = in_dims[1] if in_dims[0] is None else in_dims[0]
        x = x.unsqueeze(where) if in_dims[0] is None else x
        y = y.unsqueeze(where) if in_dims[1] is None else y.movedim(in_dims[1], where)
        return LeftInPlace.apply(x, y), where


@twin(normal(4), normal(4))
class TorchsRule(Function):
    """Reduces without a dimension, under the generated rule at any depth."""

    generate_vmap_rule = True
    setup_context = staticmethod(_save)

    @staticmethod
    def forward(x, y):
        return x - y.mean()

    @staticmethod
    def backward(ctx, g):
        return g, (-g.sum() / g.numel()).expand(g.shape)


@twin(phases(3), phases(3))
class OneSampleAtATime(_Product):
    """Loops over one level, and leaves what remains to the next."""

    @staticmethod
    def vmap(info, in_dims, x, y):
        rows = []
        for i in range(info.batch_size):
            x_i = x if in_dims[0] is None else x.select(in_dims[0], i)
            y_i = y if in_dims[1] is None else y.select(in_dims[1], i)
            rows.append(OneSampleAtATime.apply(x_i, y_i))
        return torch.stack(rows, -1), rows[0].dim()


@twin(normal(3), normal(3))
class RefusesUnevenBatches(_Product):
    """Says in words which combination it does not support."""

    @staticmethod
    def vmap(info, in_dims, x, y):
        if in_dims[0] is None or in_dims[1] is None:
            raise NotImplementedError("both inputs need a batch dimension")
        x, y = x.movedim(in_dims[0], 0), y.movedim(in_dims[1], 0)
        return RefusesUnevenBatches.apply(x, y), 0
