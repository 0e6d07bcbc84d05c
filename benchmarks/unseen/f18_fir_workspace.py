"""A causal FIR filter a channel, which writes its result into a preallocated workspace.

Fault: the workspace is kept a shape and handed out as the output, so that the next call
of the same shape overwrites the previous call's result.
"""

import torch
from torch import Tensor
from torch.nn import functional

FAULT = "output-in-reused-buffer"
KIND = "aliasing"

WORKSPACES: dict[tuple[object, ...], Tensor] = {}


def workspace(like: Tensor) -> Tensor:
    key = (tuple(like.shape), like.dtype, like.device)
    if key not in WORKSPACES:
        WORKSPACES[key] = torch.empty_like(like)
    return WORKSPACES[key]


class CausalFilter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, signal, taps):
        order = taps.shape[1]
        padded = functional.pad(signal, (order - 1, 0))
        windows = padded.unfold(2, order, 1)
        ctx.save_for_backward(signal, taps)
        out = workspace(signal)
        out.copy_(torch.einsum("nctk,ck->nct", windows, taps))
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        signal, taps = ctx.saved_tensors
        order = taps.shape[1]
        windows = functional.pad(signal, (order - 1, 0)).unfold(2, order, 1)
        grad_taps = torch.einsum("nct,nctk->ck", grad_output, windows)
        ahead = functional.pad(grad_output, (0, order - 1)).unfold(2, order, 1)
        grad_signal = torch.einsum("nctk,ck->nct", ahead, taps.flip(1))
        return grad_signal, grad_taps


op = CausalFilter.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    signal = torch.randn(2, 3, 40, generator=gen, dtype=torch.float64)
    taps = torch.randn(3, 5, generator=gen, dtype=torch.float64)
    return signal.requires_grad_(), taps.requires_grad_()
