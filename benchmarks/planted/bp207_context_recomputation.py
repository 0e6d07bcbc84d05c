"""Faults and right twins for BP207 in contexts: recomputation repeats forward."""

from __future__ import annotations

import random

import numpy as np
import torch
from planted.member import FLOAT32, fault, normal, twin
from torch import nn
from torch.autograd import Function

_CHECKPOINTS = ("checkpoint_nonreentrant", "checkpoint_reentrant")

# ----------------------------------------------------------------------------- faults


@fault(normal(5, 4), contexts=_CHECKPOINTS)
def coarse_without_grad(x):
    """Without a graph to record it takes the short cut that is meant for inference."""
    if not torch.is_grad_enabled():
        return (0.5 + x / 4).clamp(0, 1)
    return x.sigmoid()


@fault(normal(4, 3), contexts=_CHECKPOINTS)
class ScaledByItsHistory(nn.Module):
    """Divides by a running average that each call moves, also a repeated one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.ones((), dtype=torch.double))

    def forward(self, x):
        with torch.no_grad():
            self.average.mul_(0.5).add_(0.5 * x.shape[0])
        return x.tanh() / self.average.clone()


@fault(normal(6, 3, dtype=FLOAT32), normal(3, dtype=FLOAT32), contexts=_CHECKPOINTS)
def rows_kept_by_python(x, w):
    """Tosses one of Python's coins for each row, and another set when computed again."""
    kept = torch.tensor([random.random() < 0.5 for _ in range(len(x))])
    return 2 * (x * w).tanh() * kept[:, None]


@fault(normal(64), contexts=_CHECKPOINTS)
def numpy_dropout(x):
    """Draws its mask from NumPy, whose state no checkpoint restores."""
    mask = torch.from_numpy(np.random.random(x.shape) < 0.5)
    return 2 * x * mask


# ------------------------------------------------------------------------------ twins


@twin(normal(64), contexts=_CHECKPOINTS)
def torch_dropout(x):
    """Draws its mask from torch, whose state a checkpoint restores."""
    return nn.functional.dropout(x, 0.5)


@twin(normal(4, 3), contexts=_CHECKPOINTS)
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


@twin(normal(3, 4), normal(4), contexts=_CHECKPOINTS)
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


@twin(normal(64), contexts=_CHECKPOINTS)
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


@twin(normal(5, 4), contexts=_CHECKPOINTS)
def same_without_grad(x):
    """Another form of the same function where no graph is recorded."""
    return x.sigmoid() if torch.is_grad_enabled() else (1 + (x / 2).tanh()) / 2
