"""Faults and right twins for BP408: compiled autograd gives eager's gradient."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, normal, phases, twin, uniform
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


@fault(normal(4, 3), normal(3))
class LeavesOutTheSum(Function):
    """While backward is compiled, the weight's gradient of the last row is enough."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        if torch.compiler.is_compiling():
            return g * w, (g * x)[-1]
        return g * w, (g * x).sum(0)


_library = torch.library.Library("planted_backward", "DEF")
_library.define("add_into(Tensor x, Tensor out) -> ()")  # `out` is written, not marked
_library.define("add_into_marked(Tensor x, Tensor(a!) out) -> ()")


def _add_into(x, out):
    out.add_(x)


for _name in ("add_into", "add_into_marked"):
    _library.impl(_name, _add_into, "CPU")
    _library.impl(_name, lambda x, out: None, "Meta")


class _FanOut(Function):
    """x sin x, whose two terms are gathered in a buffer."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sin()


@fault(normal(6, dtype=FLOAT32))
class GatheredUnseen(_FanOut):
    """Terms are added up by a kernel that does not say that it writes."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        total = torch.zeros_like(g)
        torch.ops.planted_backward.add_into(g * x.sin(), total)
        torch.ops.planted_backward.add_into(g * x * x.cos(), total)
        return total


@fault(uniform(5, low=0.5, high=2.0))
class CoarseOnceTraced(Function):
    """A traced backward takes a reciprocal of 16 bits and mends it by one step."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.log()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if torch.compiler.is_dynamo_compiling():
            guess = (1 / x.half()).to(x.dtype)
            return g * guess * (2 - x * guess)
        return g / x


@fault(phases(4))
class ConjugateLeftOut(Function):
    """Inside the compiled pass a branch for real numbers is taken."""

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z.exp()

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        if torch._dynamo.compiled_autograd.in_compiled_autograd_region:
            return g * z.exp()
        return g * z.exp().conj()


def _half_life(n):
    """Decay per step, from the table of the kernel."""
    return [0.5**k for k in range(n)]


@torch.compiler.substitute_in_graph(_half_life)
def _half_life_traced(n):
    return [1.0 / (k + 1) for k in range(n)]


@fault(normal(5))
class AnotherDecay(Function):
    """What stands in for the table while backward is traced is another one."""

    @staticmethod
    def forward(ctx, x):
        return x * x.new_tensor([0.5**k for k in range(len(x))])

    @staticmethod
    def backward(ctx, g):
        return g * g.new_tensor(_half_life(len(g)))


# ------------------------------------------------------------------------------ twins


@twin(normal(4, 3), normal(3))
class SumAsProduct(Function):
    """A compiled backward contracts instead of summing: the same numbers."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        if torch.compiler.is_compiling():
            return g * w, torch.einsum("ij,ij->j", g, x)
        return g * w, (g * x).sum(0)


@twin(normal(6, dtype=FLOAT32))
class GatheredInTheOpen(_FanOut):
    """The same kernel, with a schema that says what it writes."""

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        total = torch.zeros_like(g)
        torch.ops.planted_backward.add_into_marked(g * x.sin(), total)
        torch.ops.planted_backward.add_into_marked(g * x * x.cos(), total)
        return total


@twin(phases(4))
class CountsBackwards(Function):
    """A counter beside the point."""

    backwards = 0

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return z.exp()

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        CountsBackwards.backwards += 1
        return g * z.exp().conj()


@twin(normal(5))
class PlainObjectsOnCtx(Function):
    """Numbers, tuples and a function lie on ctx, and are only read."""

    @staticmethod
    def forward(ctx, x):
        ctx.factors, ctx.shape = (0.5, 3.0), x.shape
        ctx.finish = torch.neg
        return -(x * 0.5 * 3.0).reshape(-1)

    @staticmethod
    def backward(ctx, g):
        for factor in ctx.factors:
            g = g * factor
        return ctx.finish(g).reshape(ctx.shape)


@twin(uniform(5, low=0.5, high=2.0))
class DifferentiatedAgain(Function):
    """Runs its forward again in backward and differentiates that."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.log() * x.sqrt()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        _, pull = torch.func.vjp(lambda x: x.log() * x.sqrt(), x)
        return pull(g)[0]
