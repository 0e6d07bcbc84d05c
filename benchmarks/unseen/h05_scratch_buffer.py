"""Log-sum-exp over the last axis, its shifted copy kept in a scratch buffer a thread.

Healthy: it looks suspicious, because a buffer that outlives the call is overwritten by
the next one. No result and nothing saved lives in it, each thread has its own, and
traced calls, whose tensors must not outlive them, get fresh memory.
"""

import threading

import torch
from torch import Tensor

FAULT = None
KIND = "aliasing"

LOCAL = threading.local()


def scratch(like: Tensor) -> Tensor:
    """Return uninitialised memory of the shape of `like`, reused between calls."""
    if torch.compiler.is_compiling() or type(like) is not Tensor:
        return torch.empty_like(like)
    buffers = LOCAL.__dict__.setdefault("buffers", {})
    flat = buffers.get((like.dtype, like.device))
    if flat is None or flat.numel() < like.numel():
        flat = torch.empty(like.numel(), dtype=like.dtype, device=like.device)
        buffers[like.dtype, like.device] = flat
    return flat[: like.numel()].view(like.shape)


class LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        peak = x.amax(dim=-1, keepdim=True)
        work = scratch(x)
        torch.sub(x, peak, out=work)
        work.exp_()
        out = peak + work.sum(dim=-1, keepdim=True).log()
        ctx.save_for_backward(x, out)
        return out.squeeze(-1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, out = ctx.saved_tensors
        return grad_output.unsqueeze(-1) * torch.exp(x - out)


op = LogSumExp.apply


def inputs(seed: int = 0) -> tuple[Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(4, 9, 25, generator=gen, dtype=torch.float32)
    return (x.requires_grad_(),)
