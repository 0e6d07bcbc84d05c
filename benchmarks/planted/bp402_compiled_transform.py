"""Faults and right twins for BP402: a compiled transform uses the op's own rules."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, normal, twin, uniform
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


@fault(normal(3, 4))
def root_mean_square(x):
    """When compiled, the statistic is a constant, so that the pullback fuses."""
    scale = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    if torch.compiler.is_compiling():
        scale = scale.detach()
    return x * scale


@fault(normal(6, dtype=FLOAT32))
class SigmoidByTable(Function):
    """Forward takes a piecewise line where it is traced."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        if torch.compiler.is_dynamo_compiling():
            return (0.5 + x / 4).clamp(0, 1)
        return x.sigmoid()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * (1 - y)


@fault(normal(5))
@torch.library.custom_op("planted::running_sum_mixed", mutates_args=())
def running_sum_mixed(x: torch.Tensor) -> torch.Tensor:
    """Its batching rule sums over the batch."""
    return x.cumsum(0)


def _running_sum_backward(ctx, g):
    return g.flip(0).cumsum(0).flip(0)


running_sum_mixed.register_fake(torch.empty_like)
running_sum_mixed.register_autograd(_running_sum_backward)


@running_sum_mixed.register_vmap
def _running_sum_mixed_vmap(info, in_dims, x):
    return running_sum_mixed(x.movedim(in_dims[0], 0)), 0


@fault(normal(5))
@torch.compiler.allow_in_graph
class OpaqueToDynamo(Function):
    """Stays whole under the compiler, with a batching rule that mixes examples."""

    @staticmethod
    def forward(x):
        return x - x.mean(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g - g.mean(0)

    @staticmethod
    def vmap(info, in_dims, x):
        return OpaqueToDynamo.apply(x.movedim(in_dims[0], 0)), 0


@fault(uniform(6, low=-0.9, high=0.9))
@torch.compiler.allow_in_graph
class LinearInTheGraph(Function):
    """Stays whole under the compiler, where its backward is that of a straight line."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.asin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g if torch.compiler.is_compiling() else g * (1 - x * x).rsqrt()


# ------------------------------------------------------------------------------ twins


@twin(normal(3, 4))
def root_mean_square_fused(x):
    """Another form of the same statistic when compiled."""
    if torch.compiler.is_compiling():
        return torch.nn.functional.rms_norm(x, x.shape[-1:], eps=1e-6)
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


@twin(normal(5))
@torch.library.custom_op("planted::running_sum_apart", mutates_args=())
def running_sum_apart(x: torch.Tensor) -> torch.Tensor:
    """Its batching rule keeps the batch where nothing is summed."""
    return x.cumsum(0)


running_sum_apart.register_fake(torch.empty_like)
running_sum_apart.register_autograd(_running_sum_backward)


@running_sum_apart.register_vmap
def _running_sum_apart_vmap(info, in_dims, x):
    return running_sum_apart(x.movedim(in_dims[0], -1)), x.dim() - 1


@twin(normal(5, dtype=FLOAT32))
@torch.compiler.allow_in_graph
class Whole(Function):
    """Stays whole under the compiler, so that its own backward is used."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x - x.mean(0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g - g.mean(0)


@twin(normal(6))
class DroppedAndNotMissed(Function):
    """Torch differentiates its forward instead of calling backward: the same thing."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.sigmoid()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * (1 - y)
