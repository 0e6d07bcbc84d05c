"""Scale and shift a channel of (N, C, L) signals, as a folded batch norm does.

Fault: the gradients of scale and shift are reduced over the batch only, to (C, L); the
engine sums the leading axis of what is too large, which is the channels', and where C
equals L the shapes agree.
"""

import torch
from torch import Tensor

FAULT = "engine-reduces-wrong-axis"
KIND = "gradient form"


class ChannelAffine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        return torch.addcmul(shift.unsqueeze(1), x, scale.unsqueeze(1))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        x, scale = ctx.saved_tensors
        grad_x = grad_scale = grad_shift = None
        if ctx.needs_input_grad[0]:
            grad_x = grad_output * scale.unsqueeze(1)
        if ctx.needs_input_grad[1]:
            grad_scale = (grad_output * x).sum(dim=0)
        if ctx.needs_input_grad[2]:
            grad_shift = grad_output.sum(dim=0)
        return grad_x, grad_scale, grad_shift


op = ChannelAffine.apply


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(4, 16, 16, generator=gen, dtype=torch.float64)
    scale = 1 + 0.2 * torch.randn(16, generator=gen, dtype=torch.float64)
    shift = torch.randn(16, generator=gen, dtype=torch.float64)
    return x.requires_grad_(), scale.requires_grad_(), shift.requires_grad_()
