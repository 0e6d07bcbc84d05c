"""Faults and right twins for BP405: what is exported, then trained, keeps its gradient."""

from __future__ import annotations

import torch
from planted.member import FLOAT32, fault, normal, twin, uniform
from torch import nn
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


def _thrice(g, x):
    return (3 * g * x.cos(),)


@fault(normal(6), expect_backward=_thrice)
def hooked(x):
    """The factor lives in a hook of the tensor, which no graph holds."""
    y = x * 1
    if y.requires_grad:
        y.register_hook(lambda g: 3 * g)
    return y.sin()


@fault(normal(3, 4))
class StatisticSetAside(nn.Module):
    """A statistic counts as a constant where the module is exported."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(4, dtype=torch.double) + 0.5)

    def forward(self, x):
        size = x.square().mean(-1, keepdim=True)
        if torch.compiler.is_exporting():
            size = size.detach()
        return x * (size + 1e-6).rsqrt() * self.gain


def _reversed(g, x):
    return (-0.5 * g,)


@fault(normal(5, dtype=FLOAT32), expect_backward=_reversed)
class ReversedByHook(nn.Module):
    """A gradient reversal through a hook of the module, left behind by export."""

    def __init__(self):
        super().__init__()
        self.register_full_backward_hook(lambda module, g, _: (-0.5 * g[0],))

    def forward(self, x):
        return x * 1.0


def _straight(g, x):
    return (g,)


@fault(uniform(6, low=-3.0, high=3.0), expect_backward=_straight)
def straight_unless_exported(x):
    """Straight through in eager mode; the branch for graphs only rounds."""
    if torch.compiler.is_compiling():
        return x.round()
    return x + (x.round() - x).detach()


@fault(uniform(5, low=0.5, high=2.0), normal(5))
def frozen_scale(x, w):
    """The weight is frozen by a branch that is meant for inference graphs."""
    w = w.detach() if torch.compiler.is_exporting() else w
    return x.log() * w.sinh()


def _quartered(g, x):
    return (0.25 * g * x.cos(),)


@fault(normal(6), expect_backward=_quartered)
def quartered_by_a_node(x):
    """A hook of the node scales the gradient; the graph of forward has no nodes."""
    y = x.sin()
    if y.grad_fn is not None:
        y.grad_fn.register_prehook(lambda g: (0.25 * g[0],))
    return y


def _hard_tanh(g, x):
    return (g * (x.abs() <= 1),)


# ------------------------------------------------------------------------------ twins


def _clipped(g, x):
    return (g * (x.abs() <= 2),)


@twin(normal(8), expect_backward=_clipped)
@torch.library.custom_op("planted::clipped_round", mutates_args=())
def clipped_round(x: torch.Tensor) -> torch.Tensor:
    """A surrogate that lives with its operator, also in a graph."""
    return x.clamp(-2, 2).round()


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _clipped_round_backward(ctx, g):
    (x,) = ctx.saved_tensors
    return g * (x.abs() <= 2)


clipped_round.register_fake(torch.empty_like)
clipped_round.register_autograd(_clipped_round_backward, setup_context=_save)


@twin(normal(8), expect_backward=_clipped)
def clipped_round_in_torch(x):
    """A surrogate in plain torch, which a graph holds as it is."""
    clipped = x.clamp(-2, 2)
    return clipped + (clipped.round() - clipped).detach()


@twin(normal(6))
class GradientByTorch(Function):
    """Its backward stays behind, and torch derives the same from its forward."""

    @staticmethod
    def forward(ctx, x):
        y = x.sigmoid()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * (1 - y)


@twin(normal(3, 4, dtype=FLOAT32))
class StatisticInOtherWords(nn.Module):
    """Exports another form of the norm, with the same gradient."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(4) + 0.5)

    def forward(self, x):
        if torch.compiler.is_exporting():
            return nn.functional.rms_norm(x, (4,), self.gain, eps=1e-6)
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.gain


@twin(normal(5))
class WatchedParameter(nn.Module):
    """A hook that looks at the gradient of a parameter and changes nothing."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(5, dtype=torch.double) + 0.5)
        self.seen = []
        self.gain.register_hook(lambda g: self.seen.append(tuple(g.shape)))

    def forward(self, x):
        return x.tanh() * self.gain


@twin(normal(8), expect_backward=_hard_tanh)
@torch.library.custom_op("planted::sign_whole", mutates_args=())
def sign_whole(x: torch.Tensor) -> torch.Tensor:
    """A surrogate as an operator that a graph keeps whole."""
    return x.sign()


def _sign_backward(ctx, g):
    (x,) = ctx.saved_tensors
    return g * (x.abs() <= 1)


sign_whole.register_fake(torch.empty_like)
sign_whole.register_autograd(_sign_backward, setup_context=_save)
