"""Scaled, masked softmax of attention scores, written to spare memory.

Fault: scores that are contiguous already come back from `contiguous()` as themselves,
and the in-place arithmetic that follows overwrites the caller's tensor, unmarked. The
numbers of output and gradient are right.
"""

import torch
from torch import Tensor

FAULT = "input-overwritten"
KIND = "mutation"


class MaskedSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, mask, scale):
        work = scores.detach().contiguous()
        work.mul_(scale).masked_fill_(mask, torch.finfo(work.dtype).min)
        work.sub_(work.amax(dim=-1, keepdim=True)).exp_()
        probs = work / work.sum(dim=-1, keepdim=True)
        ctx.save_for_backward(probs)
        ctx.scale = scale
        return probs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_probs):
        (probs,) = ctx.saved_tensors
        inner = (grad_probs * probs).sum(dim=-1, keepdim=True)
        return probs * (grad_probs - inner) * ctx.scale, None, None


op = MaskedSoftmax.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, float]:
    gen = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, 3, 8, 8, generator=gen, dtype=torch.float32)
    mask = torch.ones(8, 8, dtype=torch.bool).triu(1)
    return scores.requires_grad_(), mask, 8**-0.5
