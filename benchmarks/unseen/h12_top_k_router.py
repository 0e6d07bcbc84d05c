"""A router of experts: top-k gates renormalised, the chosen experts, and the load.

Healthy: it looks suspicious, because two of three outputs drop their cotangents, one of
them a float. Both are marked non-differentiable; missing cotangents are not
materialised, and are handled.
"""

import torch
from torch import Tensor

FAULT = None
KIND = "unused output"


class TopKRouter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, k):
        ctx.set_materialize_grads(False)
        top, chosen = logits.topk(k, dim=-1)
        gates = torch.softmax(top, dim=-1)
        load = logits.new_zeros(logits.shape[-1])
        load.index_add_(0, chosen.reshape(-1), gates.new_ones(chosen.numel()))
        load /= chosen.numel()
        ctx.save_for_backward(gates, chosen)
        ctx.experts = logits.shape[-1]
        ctx.mark_non_differentiable(chosen, load)
        return gates, chosen, load

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_gates, _grad_chosen, _grad_load):
        if grad_gates is None:
            return None, None
        gates, chosen = ctx.saved_tensors
        inner = (grad_gates * gates).sum(dim=-1, keepdim=True)
        grad_top = gates * (grad_gates - inner)
        grad = grad_top.new_zeros(*chosen.shape[:-1], ctx.experts)
        return grad.scatter(-1, chosen, grad_top), None


op = TopKRouter.apply


def inputs(seed: int = 0) -> tuple[Tensor, int]:
    gen = torch.Generator().manual_seed(seed)
    logits = torch.randn(24, 8, generator=gen, dtype=torch.float32)
    return logits.requires_grad_(), 2
