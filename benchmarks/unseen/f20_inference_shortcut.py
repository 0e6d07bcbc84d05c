"""SwiGLU, silu(x) · y, with a shortcut for inference in front of the Function.

Fault: the shortcut is taken whenever no argument has `requires_grad`, and computes on
`.data`. In forward mode nothing requires a gradient: the tangents are dropped, and
`torch.func.jvp` answers zero although the Function has a jvp.
"""

import torch
from torch import Tensor

FAULT = "forward-mode-takes-inference-path"
KIND = "transform"


class SwiGLU(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * torch.sigmoid(x) * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def slope(x):
        gate = torch.sigmoid(x)
        return gate * (1 + x * (1 - gate))

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        return grad_output * y * SwiGLU.slope(x), grad_output * x * torch.sigmoid(x)

    @staticmethod
    def jvp(ctx, x_t, y_t):
        x, y = ctx.saved_tensors
        tangent = torch.zeros_like(x)
        if x_t is not None:
            tangent = tangent + x_t * y * SwiGLU.slope(x)
        if y_t is not None:
            tangent = tangent + y_t * x * torch.sigmoid(x)
        return tangent


def op(x: Tensor, y: Tensor) -> Tensor:
    if torch.is_grad_enabled() and (x.requires_grad or y.requires_grad):
        return SwiGLU.apply(x, y)
    return torch.nn.functional.silu(x.data).mul_(y.data)


def inputs(seed: int = 0) -> tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 20, generator=gen, dtype=torch.float64)
    y = torch.randn(8, 20, generator=gen, dtype=torch.float64)
    return x.requires_grad_(), y.requires_grad_()
