"""A tridiagonal system A x = b solved by LAPACK through SciPy, in time linear in its size.

The gradient of a solution is one more solve, with the transpose of A, and the solution
itself: backward is given the output, so that nothing is solved twice.

Shows: `with_outputs=True`; `second_order` that calls the op itself, so that all orders
are banded solves too; inputs of different ranks, where vmap runs entry after entry.
"""

import numpy as np
import scipy.linalg
import torch

import backproof


def _transposed(xp, bands):
    """Bands of A's transpose; `bands[1 + i - j, j]` is A[i, j]."""
    above, diagonal, below = bands
    return xp.stack([xp.roll(below, 1), diagonal, xp.roll(above, -1)])


def _gradients(xp, adjoint, x):
    """Of the bands, -adjoint[i] x[j], and of b; what lies outside of A has none."""
    above = xp.roll(adjoint, 1) * x
    below = xp.roll(adjoint, -1) * x
    inside = xp.arange(len(x))
    above = xp.where(inside > 0, above, xp.zeros_like(x))
    below = xp.where(inside < len(x) - 1, below, xp.zeros_like(x))
    return -xp.stack([above, adjoint * x, below]), adjoint


def _solve(bands, b):
    return scipy.linalg.solve_banded((1, 1), bands, b)


def _backward(g, x, bands, b):
    return _gradients(np, _solve(_transposed(np, bands), g), x)


def _in_torch(g, x, bands, b):
    return _gradients(torch, solve_tridiagonal(_transposed(torch, bands), g), x)


@backproof.external(
    backward=_backward,
    second_order=_in_torch,
    with_outputs=True,
    fake=lambda bands, b: torch.empty_like(b),
    dtypes=(torch.float32, torch.float64),
)
def solve_tridiagonal(bands, b):
    """x with A x = b: bands (3, n) as `scipy.linalg.solve_banded` has them, b (n,)."""
    return _solve(bands, b)


op = solve_tridiagonal


def inputs(seed=0):
    """A system with a strong diagonal, in both types."""
    gen = torch.Generator().manual_seed(seed)
    bands = torch.randn(3, 8, generator=gen, dtype=torch.float64)
    bands[1] += 6
    b = torch.randn(8, generator=gen, dtype=torch.float64)
    yield bands.clone().requires_grad_(), b.clone().requires_grad_()
    yield bands.float().requires_grad_(), b.float().requires_grad_()
