"""The pointwise part of an LSTM cell: gates and old cell state to new h and c.

Fault: cotangents are not materialised, and backward gives up as soon as one of them is
missing. At the last step only h is used, and its gradient vanishes with the missing one
of c.
"""

import torch
from torch import Tensor

FAULT = "one-missing-cotangent-drops-all"
KIND = "unused output"


class LSTMPointwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gates, cell):
        ctx.set_materialize_grads(False)
        i, f, g, o = gates.chunk(4, dim=1)
        new_cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        ctx.save_for_backward(gates, cell, new_cell)
        return torch.sigmoid(o) * torch.tanh(new_cell), new_cell

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_h, grad_c):
        if grad_h is None or grad_c is None:
            return None, None
        gates, cell, new_cell = ctx.saved_tensors
        i, f, g, o = gates.chunk(4, dim=1)
        i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
        squashed = torch.tanh(new_cell)
        grad_new = grad_c + grad_h * o * (1 - squashed * squashed)
        grad_i = grad_new * g * i * (1 - i)
        grad_f = grad_new * cell * f * (1 - f)
        grad_g = grad_new * i * (1 - g * g)
        grad_o = grad_h * squashed * o * (1 - o)
        return torch.cat([grad_i, grad_f, grad_g, grad_o], dim=1), grad_new * f


op = LSTMPointwise.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    gates = torch.randn(7, 4 * 9, generator=gen, dtype=torch.float64)
    cell = torch.randn(7, 9, generator=gen, dtype=torch.float64)
    return gates.requires_grad_(), cell.requires_grad_()
