"""A feed-forward block with dropout, recomputed in backward under forward's conditions.

Healthy: it looks suspicious, because forward is random and backward draws again. The
generator's state and autocast's are those of forward, and the program's own state is
put back afterwards.
"""

import torch
from torch import Tensor
from torch.nn import functional

FAULT = None
KIND = "recomputation"


def block(x, w1, w2, p):
    hidden = functional.silu(functional.linear(x, w1))
    return functional.linear(functional.dropout(hidden, p, training=True), w2)


class CheckpointedBlock(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w1, w2, p):
        ctx.save_for_backward(x, w1, w2)
        ctx.p = p
        ctx.rng_state = torch.get_rng_state()
        ctx.autocast = {
            "device_type": "cpu",
            "enabled": torch.is_autocast_enabled("cpu"),
            "dtype": torch.get_autocast_dtype("cpu"),
        }
        return block(x, w1, w2, p)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        leaves = [
            t.detach().requires_grad_(needed)
            for t, needed in zip(ctx.saved_tensors, ctx.needs_input_grad, strict=False)
        ]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.rng_state)
            with torch.autocast(**ctx.autocast):
                out = block(*leaves, ctx.p)
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        grads = iter(torch.autograd.grad(out, wanted, grad_output))
        return *(next(grads) if leaf.requires_grad else None for leaf in leaves), None


op = CheckpointedBlock.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, float]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(12, 16, generator=gen, dtype=torch.float32)
    w1 = torch.randn(40, 16, generator=gen, dtype=torch.float32) / 4
    w2 = torch.randn(16, 40, generator=gen, dtype=torch.float32) / 6
    return x.requires_grad_(), w1.requires_grad_(), w2.requires_grad_(), 0.2
