"""Log-determinant of a covariance matrix through its Cholesky factor.

Healthy: it looks suspicious, because the matrix is badly conditioned, a step of a
hundredth in one entry leaves the domain, and the gradient's entries are a hundred times
as large as the matrix's. The argument is symmetrised, so any perturbation has a meaning.
"""

import torch
from torch import Tensor

FAULT = None
KIND = "formula"


class LogDeterminant(torch.autograd.Function):
    @staticmethod
    def forward(ctx, matrix):
        symmetric = 0.5 * (matrix + matrix.mT)
        factor = torch.linalg.cholesky(symmetric)
        ctx.save_for_backward(matrix)
        return 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)

    @staticmethod
    def backward(ctx, grad_output):
        (matrix,) = ctx.saved_tensors
        symmetric = 0.5 * (matrix + matrix.mT)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(symmetric))
        return grad_output[..., None, None] * inverse


op = LogDeterminant.apply


def inputs(seed: int = 0) -> tuple[Tensor]:
    gen = torch.Generator().manual_seed(seed)
    basis, _ = torch.linalg.qr(torch.randn(3, 8, 8, generator=gen, dtype=torch.float64))
    spectrum = torch.logspace(-2, 2, 8, dtype=torch.float64)
    return (((basis * spectrum) @ basis.mT).requires_grad_(),)
