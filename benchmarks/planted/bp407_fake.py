"""Faults and right twins for BP407: fake tensors come out as the real ones do."""

from __future__ import annotations

import numpy as np
import torch
from planted.member import (
    BFLOAT16,
    FLOAT32,
    drawn,
    fault,
    indices,
    normal,
    phases,
    twin,
    uniform,
)
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


@fault(normal(4, 3, dtype=BFLOAT16))
@torch.library.custom_op("planted::mean_in_float32", mutates_args=())
def mean_in_float32(x: torch.Tensor) -> torch.Tensor:
    """The result is float32, and the fake rule promises the input's type."""
    return x.float().mean(-1)


def _mean_backward(ctx, g):
    (x,) = ctx.saved_tensors
    return (g[:, None] / x.shape[-1]).to(x.dtype).expand(x.shape)


mean_in_float32.register_fake(lambda x: x.new_empty(x.shape[0]))
mean_in_float32.register_autograd(_mean_backward, setup_context=_save)


@fault(drawn(lambda r: torch.randn(3, 5, generator=r, dtype=torch.double).T))
@torch.library.custom_op("planted::sine_of_rows", mutates_args=())
def sine_of_rows(x: torch.Tensor) -> torch.Tensor:
    """The kernel always writes rows; `empty_like` keeps the strides of a transpose."""
    return x.contiguous().sin()


def _sine_backward(ctx, g):
    (x,) = ctx.saved_tensors
    return g * x.cos()


sine_of_rows.register_fake(torch.empty_like)
sine_of_rows.register_autograd(_sine_backward, setup_context=_save)


@fault(normal(6))
@torch.library.custom_op("planted::every_other", mutates_args=())
def every_other(x: torch.Tensor) -> torch.Tensor:
    """Half of the elements come out, and the fake rule promises all."""
    return x[::2].clone()


def _every_other_backward(ctx, g):
    (x,) = ctx.saved_tensors
    out = torch.zeros_like(x)
    out[::2] = g
    return out


every_other.register_fake(torch.empty_like)
every_other.register_autograd(_every_other_backward, setup_context=_save)


@fault(normal(8, dtype=FLOAT32))
@torch.library.custom_op("planted::without_a_fake_rule", mutates_args=())
def without_a_fake_rule(x: torch.Tensor) -> torch.Tensor:
    """Has a gradient, and nothing that a tracer could ask for its shape."""
    return torch.from_numpy(np.sin(x.numpy(force=True)))


without_a_fake_rule.register_autograd(_sine_backward, setup_context=_save)


@torch.library.custom_op("planted::gradient_in_columns", mutates_args=())
def _gradient_in_columns(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    return (g.T @ x).T


@_gradient_in_columns.register_fake
def _(x, g):
    return x.new_empty(x.shape[1], g.shape[1])


@fault(normal(4, 3), normal(3, 2))
class GradientInColumns(Function):
    """Forward is traced as it is; backward's kernel has other strides than promised."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.T, _gradient_in_columns(x, g)


@fault(normal(4, 2))
class DefaultTypeForMeta(Function):
    """The branch for tensors without values makes the default type."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        if x.is_meta:
            return torch.empty(x.shape[0], device="meta")
        return x.sum(1)

    @staticmethod
    def backward(ctx, g):
        return g[:, None].expand(ctx.shape)


@fault(phases(5))
@torch.library.custom_op("planted::power", mutates_args=())
def power(z: torch.Tensor) -> torch.Tensor:
    """Complex comes in and real comes out, except in the fake rule."""
    return z.abs().square()


def _power_backward(ctx, g):
    (z,) = ctx.saved_tensors
    return 2 * g * z


power.register_fake(torch.empty_like)
power.register_autograd(_power_backward, setup_context=_save)


# ------------------------------------------------------------------------------ twins


@twin(phases(5))
@torch.library.custom_op("planted::power_real", mutates_args=())
def power_real(z: torch.Tensor) -> torch.Tensor:
    """Complex comes in and real comes out, also in the fake rule."""
    return z.abs().square()


power_real.register_fake(lambda z: z.new_empty(z.shape, dtype=z.dtype.to_real()))
power_real.register_autograd(_power_backward, setup_context=_save)


@twin(drawn(lambda r: torch.randn(3, 5, generator=r, dtype=torch.double).T))
@torch.library.custom_op("planted::sine_in_rows", mutates_args=())
def sine_in_rows(x: torch.Tensor) -> torch.Tensor:
    """The kernel always writes rows, and so does its fake rule."""
    return x.contiguous().sin()


sine_in_rows.register_fake(lambda x: x.new_empty(x.shape))
sine_in_rows.register_autograd(_sine_backward, setup_context=_save)


@twin(drawn(lambda r: torch.randn(3, 5, generator=r, dtype=torch.double).T))
@torch.library.custom_op("planted::sine_as_it_lies", mutates_args=())
def sine_as_it_lies(x: torch.Tensor) -> torch.Tensor:
    """Keeps the strides of a transpose, as torch's own operators do."""
    return x.sin()


sine_as_it_lies.register_fake(torch.empty_like)
sine_as_it_lies.register_autograd(_sine_backward, setup_context=_save)


@twin(normal(6, 2), indices(6, below=3))
@torch.library.custom_op("planted::sum_by_label", mutates_args=())
def sum_by_label(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """The number of rows depends on values, and the fake rule says so."""
    rows = int(label.max()) + 1
    return x.new_zeros(rows, x.shape[1]).index_add_(0, label, x)


@sum_by_label.register_fake
def _(x, label):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size(), x.shape[1])


def _sum_by_label_backward(ctx, g):
    (_, label) = ctx.saved_tensors
    return g[label], None


sum_by_label.register_autograd(_sum_by_label_backward, setup_context=_save)


@twin(normal(3), normal(5))
class ExpandedGradient(Function):
    """A gradient with strides of zero, as real as fake."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.sizes = len(x), len(y)
        return x.sum() + 2 * y.sum()

    @staticmethod
    def backward(ctx, g):
        return g.expand(ctx.sizes[0]), (2 * g).expand(ctx.sizes[1])


@twin(uniform(5, low=0.5, high=1.5, dtype=FLOAT32))
class NumpyRefuses(Function):
    """Fake tensors have no values, and NumPy says so."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(np.log(x.numpy(force=True)))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g / x
