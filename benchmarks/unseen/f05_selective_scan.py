"""Selective scan of a state-space model: h_t = exp(Δ_t a) h_{t-1} + Δ_t b_t x_t.

The output is y_t = ⟨c_t, h_t⟩; backward runs the recurrence in reverse.

Fault: Δ appears twice in forward, in the decay and in the input gain, and backward
keeps the gradient through the gain only.
"""

import torch
from torch import Tensor

FAULT = "step-size-decay-term-missing"
KIND = "formula"


def states(x, delta, a, b):
    length, channels = x.shape
    h = x.new_zeros(channels, a.shape[1])
    history = []
    for t in range(length):
        decay = torch.exp(delta[t].unsqueeze(1) * a)
        h = decay * h + (delta[t] * x[t]).unsqueeze(1) * b[t]
        history.append(h)
    return torch.stack(history)


class SelectiveScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, delta, a, b, c):
        ctx.save_for_backward(x, delta, a, b, c)
        return torch.einsum("tdn,tn->td", states(x, delta, a, b), c)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_y):
        x, delta, a, b, c = ctx.saved_tensors
        h = states(x, delta, a, b)
        grad_x, grad_delta = torch.zeros_like(x), torch.zeros_like(delta)
        grad_a, grad_b = torch.zeros_like(a), torch.zeros_like(b)
        grad_c = torch.einsum("td,tdn->tn", grad_y, h)
        carry = torch.zeros_like(h[0])
        for t in reversed(range(x.shape[0])):
            grad_h = carry + grad_y[t].unsqueeze(1) * c[t]
            decay = torch.exp(delta[t].unsqueeze(1) * a)
            previous = h[t - 1] if t else torch.zeros_like(h[0])
            grad_a += grad_h * previous * decay * delta[t].unsqueeze(1)
            gain = (grad_h * b[t]).sum(dim=1)
            grad_x[t] = gain * delta[t]
            grad_delta[t] = gain * x[t]
            grad_b[t] = (grad_h * (delta[t] * x[t]).unsqueeze(1)).sum(dim=0)
            carry = grad_h * decay
        return grad_x, grad_delta, grad_a, grad_b, grad_c


op = SelectiveScan.apply


def inputs(seed: int = 0) -> tuple[Tensor, ...]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(10, 4, generator=gen, dtype=torch.float64)
    delta = 0.05 + 0.2 * torch.rand(10, 4, generator=gen, dtype=torch.float64)
    a = -torch.rand(4, 3, generator=gen, dtype=torch.float64) - 0.5
    b = torch.randn(10, 3, generator=gen, dtype=torch.float64)
    c = torch.randn(10, 3, generator=gen, dtype=torch.float64)
    return tuple(t.requires_grad_() for t in (x, delta, a, b, c))
