"""log(cosh(x)) computed by NumPy, outside of what autograd can see.

The mistake (BP101): the derivative is tanh(|x|), which has the wrong sign for negative
inputs. Tests on positive inputs pass.
"""

import numpy as np
import torch
from torch.autograd.function import once_differentiable


def log_cosh(x):
    """The kernel: |x| + log(1 + exp(-2 |x|)) - log(2), which does not overflow."""
    return np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))) - np.log(2)


class LogCosh(torch.autograd.Function):
    """y = log(cosh(x)), elementwise, on the CPU."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.as_tensor(log_cosh(x.detach().numpy()), dtype=x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.as_tensor(np.tanh(np.abs(x.numpy())), dtype=x.dtype)


op = LogCosh.apply


def inputs(seed=0):
    """A matrix in double precision."""
    gen = torch.Generator().manual_seed(seed)
    x = 2 * torch.randn(5, 6, generator=gen, dtype=torch.double)
    return (x.requires_grad_(),)
