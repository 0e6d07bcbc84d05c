"""Linear head and mean cross-entropy in chunks of rows: no logits outlive their chunk.

Healthy: it looks suspicious, because the gradients are finished before any cotangent is
known, backward takes a shortcut for a cotangent of one, and the chunks do not divide the
rows. The loss is a scalar, so that scaling afterwards is exact; second order refuses.
"""

import torch
from torch import Tensor

FAULT = None
KIND = "linearity"

CHUNK_ROWS = 16


class FusedLinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, targets):
        rows = hidden.shape[0]
        loss = hidden.new_zeros(())
        grad_hidden = torch.zeros_like(hidden)
        grad_weight = torch.zeros_like(weight)
        for start in range(0, rows, CHUNK_ROWS):
            part = slice(start, min(start + CHUNK_ROWS, rows))
            logits = hidden[part] @ weight.t()
            log_probs = torch.log_softmax(logits, dim=1)
            picked = targets[part].unsqueeze(1)
            loss = loss - log_probs.gather(1, picked).sum() / rows
            grad_logits = log_probs.exp()
            grad_logits.scatter_add_(1, picked, -torch.ones_like(grad_logits[:, :1]))
            grad_logits /= rows
            grad_hidden[part] = grad_logits @ weight
            grad_weight += grad_logits.t() @ hidden[part]
        ctx.save_for_backward(grad_hidden, grad_weight)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        grad_hidden, grad_weight = ctx.saved_tensors
        if bool(grad_output == 1):  # the last op of a training step: nothing to scale
            return grad_hidden.clone(), grad_weight.clone(), None
        return grad_hidden * grad_output, grad_weight * grad_output, None


op = FusedLinearCrossEntropy.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    hidden = torch.randn(42, 12, generator=gen, dtype=torch.float64)
    weight = torch.randn(30, 12, generator=gen, dtype=torch.float64) / 3
    targets = torch.randint(0, 30, (42,), generator=gen)
    return hidden.requires_grad_(), weight.requires_grad_(), targets
