"""Row-wise log-softmax, driven like a kernel that is given a pointer and strides.

Fault: backward's kernel addresses the cotangent with the output's strides. For a
cotangent that is a transposed view or a slice of a larger one, the rows that it reads
are other rows; for an expanded one it reads past the end.
"""

import torch
from torch import Tensor

FAULT = "cotangent-read-with-output-strides"
KIND = "strides"


def rows(tensor, strides):
    """The matrix that a kernel sees from the address of `tensor` and given strides."""
    offset = tensor.storage_offset()
    return torch.as_strided(tensor, tensor.shape, strides, offset)


class LogSoftmaxRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        source = rows(x, x.stride())
        peak = source.amax(dim=1, keepdim=True)
        total = torch.exp(source - peak).sum(dim=1, keepdim=True)
        torch.sub(source, peak + torch.log(total), out=rows(out, out.stride()))
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        (out,) = ctx.saved_tensors
        grad_x = torch.empty_like(out)
        grad = rows(grad_output, out.stride())
        total = grad.sum(dim=1, keepdim=True)
        torch.sub(grad, torch.exp(out) * total, out=grad_x)
        return grad_x


op = LogSoftmaxRows.apply


def inputs(seed: int = 0) -> tuple[Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(32, 20, generator=gen, dtype=torch.float32)
    return (x.requires_grad_(),)
