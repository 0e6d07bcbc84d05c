"""Cross-entropy a token, whose gradient is made in forward while the logits are hot.

Fault: the losses are not reduced, so each token has a cotangent of its own; backward
multiplies all rows by the first token's, as a kernel does that reads one scalar. Under a
plain sum nothing shows.
"""

import torch
from torch import Tensor

FAULT = "cotangent-of-first-token-for-all"
KIND = "linearity"


class TokenCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, ignore_index):
        valid = targets != ignore_index
        safe = targets.masked_fill(~valid, 0)
        log_probs = logits - torch.logsumexp(logits, dim=1, keepdim=True)
        loss = -log_probs.gather(1, safe.unsqueeze(1)).squeeze(1)
        loss = loss.masked_fill(~valid, 0.0)

        grad = log_probs.exp()
        grad.scatter_add_(1, safe.unsqueeze(1), -torch.ones_like(grad[:, :1]))
        grad.masked_fill_(~valid.unsqueeze(1), 0.0)
        ctx.save_for_backward(grad)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        (grad,) = ctx.saved_tensors
        return grad * grad_output.reshape(-1)[0], None, None


op = TokenCrossEntropy.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, int]:
    gen = torch.Generator().manual_seed(seed)
    logits = torch.randn(24, 50, generator=gen, dtype=torch.float32)
    targets = torch.randint(0, 50, (24,), generator=gen)
    targets[5] = -100
    return logits.requires_grad_(), targets, -100
