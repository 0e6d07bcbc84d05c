"""An embedding bag (sum) whose gradient is gathered in a buffer allocated in forward.

Fault: the buffer is zeroed when it is allocated, not when it is used: a second backward
through a retained graph adds to what the first has left there.
"""

import torch
from torch import Tensor

FAULT = "gradient-buffer-not-cleared"
KIND = "second backward"


class EmbeddingBagSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, indices, offsets, per_sample):
        bags = torch.zeros_like(indices)
        bags[offsets[1:]] = 1
        bags = bags.cumsum(0)
        out = table.new_zeros(offsets.numel(), table.shape[1])
        out.index_add_(0, bags, table[indices] * per_sample.unsqueeze(1))
        ctx.save_for_backward(table, indices, bags, per_sample)
        # Allocated here, so that backward's peak memory is known beforehand.
        ctx.grad_table = torch.zeros_like(table)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        table, indices, bags, per_sample = ctx.saved_tensors
        rows = grad_output[bags]
        ctx.grad_table.index_add_(0, indices, rows * per_sample.unsqueeze(1))
        grad_weights = (rows * table[indices]).sum(dim=1)
        return ctx.grad_table.clone(), None, None, grad_weights


op = EmbeddingBagSum.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    table = torch.randn(50, 8, generator=gen, dtype=torch.float64)
    indices = torch.randint(0, 50, (30,), generator=gen)
    offsets = torch.tensor([0, 4, 11, 19, 26])
    per_sample = torch.rand(30, generator=gen, dtype=torch.float64)
    return table.requires_grad_(), indices, offsets, per_sample.requires_grad_()
