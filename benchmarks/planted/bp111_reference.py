"""Faults and right twins for BP111: forward is the reference's forward."""

from __future__ import annotations

import torch
from planted.member import (
    BFLOAT16,
    FLOAT32,
    fault,
    fixed,
    indices,
    normal,
    phases,
    twin,
)
from torch import nn
from torch.autograd import Function

# ----------------------------------------------------------------------------- faults


def standardised(x):
    """By the biased spread, as layer norm does."""
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, correction=0, keepdim=True)


@fault(normal(6, 9), reference=standardised)
def unbiased(x):
    """The other estimate of the variance; its gradient matches itself."""
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)


def rotary(x, angle):
    """Rotates the two halves of the last dimension against each other."""
    left, right = x.chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([left * cos - right * sin, left * sin + right * cos], -1)


@fault(normal(5, 8, dtype=FLOAT32), fixed(normal(5, 4)), reference=rotary)
class InterleavedRotary(Function):
    """Pairs neighbours, where the checkpoint pairs halves."""

    @staticmethod
    def turn(x, angle):
        even, odd = x[..., ::2], x[..., 1::2]
        cos, sin = angle.cos().to(x), angle.sin().to(x)
        pairs = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1)
        return pairs.flatten(-2)

    @staticmethod
    def forward(ctx, x, angle):
        ctx.save_for_backward(angle)
        return InterleavedRotary.turn(x, angle)

    @staticmethod
    def backward(ctx, g):
        (angle,) = ctx.saved_tensors
        return InterleavedRotary.turn(g, -angle), None


def attention(q, k, v):
    """Scaled by the root of the width."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return torch.softmax(scores, -1) @ v


@fault(normal(5, 4), normal(6, 4), normal(6, 3), reference=attention)
def attention_over_width(q, k, v):
    """Scaled by the width itself."""
    return torch.softmax(q @ k.mT / q.shape[-1], -1) @ v


def smoothed_loss(logits, labels):
    """Label smoothing as torch means it."""
    return nn.functional.cross_entropy(logits, labels, label_smoothing=0.1)


@fault(normal(7, 5, dtype=FLOAT32), indices(7, below=5), reference=smoothed_loss)
def smoothed_over_others(logits, labels):
    """The smoothing mass goes to the other classes only."""
    chances = torch.log_softmax(logits, -1)
    others = logits.shape[-1] - 1
    target = torch.full_like(chances, 0.1 / others).scatter(-1, labels[:, None], 0.9)
    return -(target * chances).sum(-1).mean()


@fault(normal(60, dtype=FLOAT32), reference=nn.functional.gelu)
def tanh_gelu(x):
    """The approximation, off by less than a thousandth."""
    return nn.functional.gelu(x, approximate="tanh")


@fault(
    normal(256, 256, dtype=BFLOAT16),
    fixed(normal(256, dtype=BFLOAT16)),
    reference=lambda x, gain: x * gain,
)
class BlockForgotten(Function):
    """Sixteen of 65,536 elements of the gradient are zero, in sixteen bits."""

    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(gain)
        return x * gain

    @staticmethod
    def backward(ctx, g):
        (gain,) = ctx.saved_tensors
        of_x = g * gain
        of_x[77, 128:144] = 0
        return of_x, None


# ------------------------------------------------------------------------------ twins


@twin(
    normal(6, 40, dtype=FLOAT32),
    reference=lambda x: torch.softmax(x, -1),
)
class OnlineSoftmax(Function):
    """In one pass over blocks, with a running maximum."""

    @staticmethod
    def forward(ctx, x):
        top = x.new_full((len(x), 1), -torch.inf)
        total = torch.zeros_like(top)
        for block in x.split(16, -1):
            higher = torch.maximum(top, block.amax(-1, keepdim=True))
            total = total * (top - higher).exp()
            total = total + (block - higher).exp().sum(-1, keepdim=True)
            top = higher
        y = (x - top).exp() / total
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(-1, keepdim=True))


def root_mean_square(x, gain):
    """Composed, rounding after each step."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * gain


@twin(
    normal(32, 64, dtype=BFLOAT16),
    normal(64, dtype=BFLOAT16),
    reference=root_mean_square,
)
def fused_root_mean_square(x, gain):
    """In float32 inside, so nearer to the truth than the reference."""
    return root_mean_square(x.float(), gain.float()).bfloat16()


@twin(
    normal(4, 6),
    normal(6, 5),
    reference=lambda x, w: x @ w,
)
def transposed_layout(x, w):
    """The same numbers in another order of memory."""
    return (w.mT @ x.mT).mT


@twin(
    phases(12),
    reference=lambda z: z.real**2 + z.imag**2,
)
def power(z):
    """The same by way of a conjugate."""
    return (z * z.conj()).real


@twin(
    normal(2000, dtype=FLOAT32),
    reference=lambda x: (x * x).sum(),
)
def summed_in_blocks(x):
    """Another order of the sum, so other last digits."""
    return torch.stack([(b * b).sum() for b in x.split(64)]).sum()


@twin(
    normal(7, 5),
    indices(7, below=5),
    reference=nn.functional.cross_entropy,
)
class FusedCrossEntropy(Function):
    """Never forms the probabilities in forward."""

    @staticmethod
    def forward(ctx, logits, labels):
        chosen = logits.gather(1, labels[:, None])[:, 0]
        ctx.save_for_backward(logits, labels)
        return (torch.logsumexp(logits, 1) - chosen).mean()

    @staticmethod
    def backward(ctx, g):
        logits, labels = ctx.saved_tensors
        truth = nn.functional.one_hot(labels, logits.shape[1])
        return g * (torch.softmax(logits, 1) - truth) / len(labels), None
