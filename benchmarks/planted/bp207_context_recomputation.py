"""Faults and right twins for BP207 in contexts: recomputation repeats forward."""

from __future__ import annotations

import numpy as np
import torch
from planted.member import FLOAT32, fault, normal, twin
from torch import nn
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

# ----------------------------------------------------------------------------- faults


@fault(normal(5, 4))
def coarse_without_grad(x):
    """Without a graph to record it takes the short cut that is meant for inference."""
    if not torch.is_grad_enabled():
        return (0.5 + x / 4).clamp(0, 1)
    return x.sigmoid()


@fault(normal(4, 3))
class ScaledByItsHistory(nn.Module):
    """Divides by a running average that each call moves, also a repeated one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.ones((), dtype=torch.double))

    def forward(self, x):
        with torch.no_grad():
            self.average.mul_(0.5).add_(0.5 * x.shape[0])
        return x.tanh() / self.average.clone()


@fault(normal(3, 4), normal(4, dtype=torch.float64))
class ProjectionKept(nn.Module):
    """Keeps the projected weight of a call without gradients for the next ones."""

    def __init__(self):
        super().__init__()
        self.projected = None

    def forward(self, x, w):
        projected = self.projected
        if projected is None:
            projected = w / w.norm()
            if not torch.is_grad_enabled():
                self.projected = projected
        return x * projected


@fault(normal(64))
def numpy_dropout(x):
    """Draws its mask from NumPy, whose state no checkpoint restores."""
    mask = torch.from_numpy(np.random.random(x.shape) < 0.5)
    return 2 * x * mask


@fault(normal(4, 6, dtype=FLOAT32), normal(6, 3, dtype=FLOAT32))
class AgainWithoutAutocast(Function):
    """Computes again outside of autocast, where the epsilon is that of 32 bits."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return _normed_product(x, w)

    @staticmethod
    def backward(ctx, g):
        with torch.enable_grad():
            x, w = (t.view_as(t) for t in ctx.saved_tensors)
            y = _normed_product(x, w)
        graph = torch.is_grad_enabled()
        return torch.autograd.grad(y, (x, w), g.to(y.dtype), create_graph=graph)


def _normed_product(x, w):
    y = x @ w
    return y / (y.abs() + torch.finfo(y.dtype).eps ** 0.25)


# ------------------------------------------------------------------------------ twins


@twin(normal(64))
def torch_dropout(x):
    """Draws its mask from torch, whose state a checkpoint restores."""
    return nn.functional.dropout(x, 0.5)


@twin(normal(4, 3))
class CountsButDoesNotUse(nn.Module):
    """Moves running statistics at each call, and normalises by the batch alone."""

    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.zeros(3, dtype=torch.double))

    def forward(self, x):
        mean = x.mean(0)
        with torch.no_grad():
            self.average.mul_(0.9).add_(0.1 * mean)
        return x - mean


@twin(normal(3, 4), normal(4))
class ProjectionForInference(nn.Module):
    """Keeps what it projected without gradients, and uses it only there."""

    def __init__(self):
        super().__init__()
        self.kept = None

    def forward(self, x, w):
        if torch.is_grad_enabled():
            return x * (w / w.norm())
        if self.kept is None or self.kept[0] is not w or self.kept[1] != w._version:
            self.kept = (w, w._version, w / w.norm())
        return x * self.kept[2]


@twin(normal(4, 6, dtype=FLOAT32), normal(6, 3, dtype=FLOAT32))
def checkpointed(x, w):
    """Lets torch's own checkpoint compute again, under forward's settings."""
    return checkpoint(_normed_product, x, w, use_reentrant=False)


@twin(normal(64))
class MaskKept(Function):
    """Draws once and keeps the mask."""

    @staticmethod
    def forward(ctx, x):
        mask = torch.rand_like(x) < 0.5
        ctx.save_for_backward(mask)
        return 2 * x * mask

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return 2 * g * mask


@twin(normal(5, 4))
def same_without_grad(x):
    """Another form of the same function where no graph is recorded."""
    return x.sigmoid() if torch.is_grad_enabled() else (1 + (x / 2).tanh()) / 2
