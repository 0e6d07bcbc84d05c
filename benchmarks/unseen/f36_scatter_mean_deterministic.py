"""Mean of edge messages a node, as in graph networks, with a repeatable backward.

Fault: backward switches deterministic algorithms on for its own gather and leaves them
on, for the whole program and from then on.
"""

import torch
from torch import Tensor

FAULT = "deterministic-mode-left-on"
KIND = "global state"


class ScatterMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, messages, targets, nodes):
        count = torch.bincount(targets, minlength=nodes).clamp_min(1)
        count = count.to(messages.dtype).unsqueeze(1)
        total = messages.new_zeros(nodes, messages.shape[1])
        total.index_add_(0, targets, messages)
        ctx.save_for_backward(targets, count)
        return total / count

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        targets, count = ctx.saved_tensors
        if not torch.are_deterministic_algorithms_enabled():
            torch.use_deterministic_algorithms(True)
        return (grad_output / count).index_select(0, targets), None, None


op = ScatterMean.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, int]:
    gen = torch.Generator().manual_seed(seed)
    messages = torch.randn(60, 8, generator=gen, dtype=torch.float32)
    targets = torch.randint(0, 14, (60,), generator=gen)
    return messages.requires_grad_(), targets, 14
