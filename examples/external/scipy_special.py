"""Bessel functions of any order from SciPy, differentiable as often as you like.

torch has the orders 0 and 1 only, without a gradient. The derivative is made of two
Bessel functions, so backward calls SciPy, and `second_order`, the same formula made of
the op itself, can be differentiated without end.

Shows: `elementwise=True`, from which shapes, vmap and forward mode follow, and a
`second_order` that is made of the op that it belongs to.
"""

import scipy.special
import torch

import backproof


def _slope(g, n, x):
    jv = scipy.special.jv
    return None, g * (jv(n - 1, x) - jv(n + 1, x)) / 2


def _differentiable_slope(g, n, x):
    return None, g * (bessel_j(n - 1, x) - bessel_j(n + 1, x)) / 2


@backproof.external(
    backward=_slope,
    second_order=_differentiable_slope,
    elementwise=True,
    dtypes=(torch.float32, torch.float64),
)
def bessel_j(n, x):
    """J_n(x), of the first kind, for an integer n that is no tensor."""
    return scipy.special.jv(n, x)


op = bessel_j


def inputs(seed=0):
    """Orders 2 and 0, in both types."""
    gen = torch.Generator().manual_seed(seed)
    x = 4 * torch.randn(5, 6, generator=gen, dtype=torch.float64)
    yield 2, x.clone().requires_grad_()
    yield 0, x.float().requires_grad_()
