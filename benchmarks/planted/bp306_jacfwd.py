"""Faults and right twins for BP306: `jacfwd` gives the Jacobian for every argument."""

from __future__ import annotations

import numpy as np
import torch
from planted.member import FLOAT32, fault, normal, twin, uniform
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


class _Scale(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return x.sinh() * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        if g is None:
            return None, None
        x, w = ctx.saved_tensors
        return g * x.cosh() * w, g * x.sinh()


@fault(normal(4), normal(4))
class FactorForgotten(_Scale):
    """Where only x moves, its tangent is passed on without the factor."""

    @staticmethod
    def jvp(ctx, x_t, w_t):
        x, w = ctx.saved_tensors
        if w_t is None:
            return x_t * x.cosh()
        if x_t is None:
            return x.sinh() * w_t
        return x_t * x.cosh() * w + x.sinh() * w_t


@fault(normal(4, dtype=FLOAT32), normal(4, dtype=FLOAT32))
class OnlyThePairIsRight(_Scale):
    """A tangent that is absent is replaced by ones."""

    @staticmethod
    def jvp(ctx, x_t, w_t):
        x, w = ctx.saved_tensors
        x_t = torch.ones_like(x) if x_t is None else x_t
        w_t = torch.zeros_like(w) if w_t is None else w_t
        return x_t * x.cosh() * w + x.sinh() * w_t


class _Growth(Function):
    """Forward mode is left to a kernel with a batching rule of its own."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.cumsum(0).exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return (g * y).flip(0).cumsum(0).flip(0)


class _PushOverTheBatch(Function):
    """`y * cumsum(t)`, by a NumPy kernel."""

    @staticmethod
    def forward(t, y):
        return torch.from_numpy(np.cumsum(t.numpy(), axis=0) * y.numpy())

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, t, y):
        t = t.movedim(in_dims[0], 0)
        y = y[None] if in_dims[1] is None else y.movedim(in_dims[1], 0)
        return _PushOverTheBatch.apply(t, y), 0


@fault(uniform(5, low=-0.5, high=0.5))
class TangentsSummedUp(_Growth):
    """The kernel sums over the first dimension, which is that of the basis."""

    @staticmethod
    def jvp(ctx, t):
        (y,) = ctx.saved_tensors
        return _PushOverTheBatch.apply(t, y)


@torch.library.custom_op("planted::push_first_only", mutates_args=())
def _push_first_only(t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return t.cumsum(0) * y


_push_first_only.register_fake(lambda t, y: torch.empty_like(t))


@_push_first_only.register_vmap
def _push_first_only_vmap(info, in_dims, t, y):
    """One tangent stands for all that are pushed together."""
    first = _push_first_only(t.select(in_dims[0], 0), y)
    return first.expand(info.batch_size, *first.shape), 0


@fault(uniform(5, low=-0.5, high=0.5))
class OneTangentForAll(_Growth):
    @staticmethod
    def jvp(ctx, t):
        (y,) = ctx.saved_tensors
        return _push_first_only(t, y)


# ------------------------------------------------------------------------------ twins


@twin(normal(4), normal(4))
class EveryCombination(_Scale):
    """Absent tangents are left out, each in its place."""

    @staticmethod
    def jvp(ctx, x_t, w_t):
        x, w = ctx.saved_tensors
        parts = []
        if x_t is not None:
            parts.append(x_t * x.cosh() * w)
        if w_t is not None:
            parts.append(x.sinh() * w_t)
        return sum(parts)


@twin(normal(4, dtype=FLOAT32), normal(4, dtype=FLOAT32))
class ZerosForTheAbsent(Function):
    """Lets torch fill in zeros, and adds a product with them."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return torch.outer(x, w)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, g.T @ x

    @staticmethod
    def jvp(ctx, x_t, w_t):
        x, w = ctx.saved_tensors
        return torch.outer(x_t, w) + torch.outer(x, w_t)


class _PushEach(_PushOverTheBatch):
    @staticmethod
    def vmap(info, in_dims, t, y):
        t = t.movedim(in_dims[0], -1)
        y = y[:, None] if in_dims[1] is None else y.movedim(in_dims[1], -1)
        return _PushOverTheBatch.apply(t, y.expand(t.shape)), t.dim() - 1


@twin(uniform(5, low=-0.5, high=0.5))
class TangentsSideBySide(_Growth):
    """The same kernel, with the basis in a dimension that it does not sum over."""

    @staticmethod
    def jvp(ctx, t):
        (y,) = ctx.saved_tensors
        return _PushEach.apply(t, y)


@twin(normal(4, 4))
class TangentIsAView(Function):
    """Returns its tangent transposed, not a new tensor."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.T.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g.T

    @staticmethod
    def jvp(ctx, t):
        return t.T


@twin(normal(4), normal(4))
class OnlyBackward(_Scale):
    """Has no rule for forward mode, and refuses it."""
