"""The log partition function of a linear chain, by a forward pass in Numba.

The sum over all paths through (steps, states) of exp(unary + transition), in log space.
Its gradient is the probability of each state and of each pair of neighbours, which a
pass from the end gathers.

Shows: a kernel that is declared once differentiable by saying nothing: a derivative of
backward is refused by name. Forward mode needs a `jvp`; vmap runs entry after entry.
"""

import numba
import numpy as np
import torch

import backproof


@numba.njit(nogil=True)
def _log_sum_exp(values):
    top = values.max()
    return top + np.log(np.exp(values - top).sum())


@numba.njit(nogil=True)
def _softmax(values):
    weights = np.exp(values - values.max())
    return weights / weights.sum()


@numba.njit(nogil=True)
def _from_start(unary, transition):
    reached = unary.copy()
    for t in range(1, unary.shape[0]):
        for k in range(unary.shape[1]):
            reached[t, k] += _log_sum_exp(reached[t - 1] + transition[:, k])
    return reached


@numba.njit(nogil=True)
def _probabilities(unary, transition):
    """Of each state at each step, and of each pair of neighbours over all steps."""
    reached = _from_start(unary, transition)
    states, pairs = np.zeros_like(unary), np.zeros_like(transition)
    states[-1] = _softmax(reached[-1])
    for t in range(unary.shape[0] - 1, 0, -1):
        for k in range(unary.shape[1]):
            came_from = states[t, k] * _softmax(reached[t - 1] + transition[:, k])
            states[t - 1] += came_from
            pairs[:, k] += came_from
    return states, pairs


def _backward(g, unary, transition):
    states, pairs = _probabilities(unary, transition)
    return g * states, g * pairs


def _jvp(d_unary, d_transition, unary, transition):
    states, pairs = _probabilities(unary, transition)
    return np.vdot(states, d_unary) + np.vdot(pairs, d_transition)


@backproof.external(
    backward=_backward,
    jvp=_jvp,
    fake=lambda unary, transition: unary.new_empty(()),
    dtypes=(torch.float32, torch.float64),
)
def log_partition(unary, transition):
    """Log of the sum over all paths: (steps, states), (states, states) to ()."""
    last = _from_start(unary, transition)[-1]
    return last.dtype.type(_log_sum_exp(last))  # a scalar leaves Numba as a float64


op = log_partition


def inputs(seed=0):
    """Seven steps and four states, in both types."""
    gen = torch.Generator().manual_seed(seed)
    unary = torch.randn(7, 4, generator=gen, dtype=torch.float64)
    transition = torch.randn(4, 4, generator=gen, dtype=torch.float64)
    yield unary.clone().requires_grad_(), transition.clone().requires_grad_()
    yield unary.float().requires_grad_(), transition.float().requires_grad_()
