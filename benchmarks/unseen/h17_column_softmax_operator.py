"""A custom operator: softmax down the columns, returned in a transposed layout.

Healthy: it looks suspicious, because output and gradient are never contiguous, whatever
the input's strides. The fake kernel has the same layout, and backward is an operator of
its own with a fake kernel too.
"""

import torch
from torch import Tensor

FAULT = None
KIND = "fake"


@torch.library.custom_op("unseen::column_softmax", mutates_args=())
def column_softmax(x: Tensor) -> Tensor:
    columns = x.t()
    work = columns.contiguous() - columns.amax(dim=1, keepdim=True)
    work.exp_()
    return work.div_(work.sum(dim=1, keepdim=True)).t()


@column_softmax.register_fake
def _(x):
    return x.new_empty(x.shape[1], x.shape[0]).t()


@torch.library.custom_op("unseen::column_softmax_backward", mutates_args=())
def column_softmax_backward(grad: Tensor, probs: Tensor) -> Tensor:
    grad, probs = grad.t(), probs.t()
    inner = (grad * probs).sum(dim=1, keepdim=True)
    return ((grad - inner) * probs).contiguous().t()


@column_softmax_backward.register_fake
def _(grad, probs):
    return probs.new_empty(probs.shape[1], probs.shape[0]).t()


def setup_context(ctx, inputs, output):
    ctx.save_for_backward(output)


def backward(ctx, grad_output):
    (probs,) = ctx.saved_tensors
    return column_softmax_backward(grad_output, probs)


column_softmax.register_autograd(backward, setup_context=setup_context)

op = column_softmax


def inputs(seed: int = 0) -> tuple[Tensor]:
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(18, 12, generator=gen, dtype=torch.float32)
    return (x.requires_grad_(),)
