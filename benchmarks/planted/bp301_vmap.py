"""Faults and right twins for BP301: under vmap each example gets its own numbers."""

from __future__ import annotations

import math

import numpy as np
import torch
from planted.member import BFLOAT16, FLOAT32, fault, indices, normal, phases, twin
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


class _Softmax(Function):
    """The old convention: the last dimension of a matrix, the first of anything else."""

    @staticmethod
    def forward(x):
        return x.softmax(1 if x.dim() == 2 else 0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.dim = 1 if output.dim() == 2 else 0
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(ctx.dim, keepdim=True))


@fault(normal(3, 5))
class ImplicitDimension(_Softmax):
    """A batch of matrices has three dimensions, and the softmax runs over examples."""

    @staticmethod
    def vmap(info, in_dims, x):
        return ImplicitDimension.apply(x.movedim(in_dims[0], 0)), 0


@fault(normal(6, dtype=FLOAT32))
class TaperOverTheBatch(Function):
    """Examples are joined end to end, so that one window lies over all of them."""

    @staticmethod
    def forward(x):
        return x * torch.hann_window(len(x), periodic=False, dtype=x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * torch.hann_window(len(g), periodic=False, dtype=g.dtype)

    @staticmethod
    def vmap(info, in_dims, x):
        x = x.movedim(in_dims[0], 0)
        return TaperOverTheBatch.apply(x.reshape(-1)).view_as(x), 0


@fault(normal(8, 2, dtype=BFLOAT16))
class OneNormForAll(Function):
    """The norm is that of the whole batch."""

    @staticmethod
    def forward(x):
        return x / x.norm()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return (g - y * (g * y).sum()) / x.norm()

    @staticmethod
    def vmap(info, in_dims, x):
        return OneNormForAll.apply(x), in_dims[0]


@fault(normal(3, 3))
class WrongOutputDimension(Function):
    """Forward transposes, and the rule says that the batch stays where it was."""

    @staticmethod
    def forward(x):
        return x.transpose(-1, -2) * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g.transpose(-1, -2) * 2

    @staticmethod
    def vmap(info, in_dims, x):
        return WrongOutputDimension.apply(x.movedim(in_dims[0], -1)), x.dim() - 1


@fault(normal(6), normal(6))
@torch.library.custom_op("planted::outer_roles_exchanged", mutates_args=())
def outer_roles_exchanged(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.outer(x, y)


def _save_both(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _outer_backward(ctx, g):
    x, y = ctx.saved_tensors
    return g @ y, g.T @ x


outer_roles_exchanged.register_fake(lambda x, y: x.new_empty(len(x), len(y)))
outer_roles_exchanged.register_autograd(_outer_backward, setup_context=_save_both)


@outer_roles_exchanged.register_vmap
def _outer_vmap(info, in_dims, x, y):
    """Transposed, which has the right shape for vectors of one length."""
    x = x if in_dims[0] is None else x.movedim(in_dims[0], 0)
    y = y if in_dims[1] is None else y.movedim(in_dims[1], 0)
    return x.unsqueeze(-2) * y.unsqueeze(-1), 0


@fault(normal(5, 4), indices(3, below=5))
class GatherWithoutOffsets(Function):
    """Tables of all examples are stacked, and every index points into the first."""

    @staticmethod
    def forward(table, index):
        return table[index]

    @staticmethod
    def setup_context(ctx, inputs, output):
        table, index = inputs
        ctx.save_for_backward(index)
        ctx.rows = len(table)

    @staticmethod
    def backward(ctx, g):
        (index,) = ctx.saved_tensors
        return g.new_zeros(ctx.rows, *g.shape[1:]).index_add(0, index, g), None

    @staticmethod
    def vmap(info, in_dims, table, index):
        stacked = table.movedim(in_dims[0], 0).flatten(0, 1)
        if in_dims[1] is not None:
            index = index.movedim(in_dims[1], 0)
        else:
            index = index.expand(info.batch_size, -1)
        y = GatherWithoutOffsets.apply(stacked, index.reshape(-1))
        return y.unflatten(0, index.shape), 0


@fault(normal(7))
class CheaperWhenBatched(Function):
    """Batched tensors take the short cut of the erf that was good enough in 16 bits."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        if torch._C._functorch.is_batchedtensor(x):
            return torch.tanh(2 / math.sqrt(math.pi) * (x + 0.0899 * x**3))
        return torch.erf(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 / math.sqrt(math.pi) * torch.exp(-x * x)


# ------------------------------------------------------------------------------ twins


@twin(normal(3, 5))
class AlignedSoftmax(Function):
    """Counts from the end, where the rule never puts the batch."""

    @staticmethod
    def forward(x):
        return x.softmax(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(-1, keepdim=True))

    @staticmethod
    def vmap(info, in_dims, x):
        return AlignedSoftmax.apply(x.movedim(in_dims[0], 0)), 0


@twin(normal(8, 2, dtype=BFLOAT16))
class OneNormForEach(Function):
    """A norm without a dimension, which the generated rule keeps to each example."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x / x.norm()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return (g - y * (g * y).sum()) / x.norm()


@twin(normal(6, dtype=FLOAT32))
class TaperOneByOne(Function):
    """An opaque kernel, called once an example."""

    @staticmethod
    def forward(x):
        return torch.from_numpy(
            x.numpy(force=True) * np.hanning(len(x)).astype(np.float32)
        )

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return TaperOneByOne.apply(g)

    @staticmethod
    def vmap(info, in_dims, x):
        return torch.stack(
            [TaperOneByOne.apply(row) for row in x.unbind(in_dims[0])]
        ), 0


@twin(normal(5, 4))
class CentredFirstDimension(Function):
    """Reduces over the first dimension, so its rule keeps the batch in the last."""

    @staticmethod
    def forward(x):
        return x - x.mean(0, keepdim=True)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g - g.mean(0, keepdim=True)

    @staticmethod
    def vmap(info, in_dims, x):
        return CentredFirstDimension.apply(x.movedim(in_dims[0], -1)), x.dim() - 1


@twin(phases(6))
class FlatBatch(Function):
    """Joins all examples, which an elementwise op does not notice."""

    @staticmethod
    def forward(z):
        return z * z.abs()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return g * z.abs() + (g.conj() * z).real * z / z.abs()

    @staticmethod
    def vmap(info, in_dims, z):
        return FlatBatch.apply(z.reshape(-1)).view(z.shape), in_dims[0]


@twin(normal(6), normal(6))
@torch.library.custom_op("planted::outer_one_by_one", mutates_args=())
def outer_one_by_one(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Without a rule: torch falls back to a loop, and warns of its speed."""
    return torch.outer(x, y)


outer_one_by_one.register_fake(lambda x, y: x.new_empty(len(x), len(y)))
outer_one_by_one.register_autograd(_outer_backward, setup_context=_save_both)


@twin(normal(4))
class NoRule(Function):
    """Refuses, in torch's own words."""

    @staticmethod
    def forward(x):
        return x.sinh()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cosh()
