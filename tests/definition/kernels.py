"""The gate of gates.py in NumPy, in every way in which a kernel can be declared."""

import numpy as np
import torch

import backproof
from tests.definition.gates import STEEP, pulled


def sigmoid(x):
    return 1 / (1 + np.exp(-STEEP * x))


def forward(x, w):
    return np.round(4 * w * x * sigmoid(x)) / 4


def backward(g, x, w):
    s = sigmoid(x)
    return g * w * (s + x * STEEP * s * (1 - s)), g * x * s


def push(dx, dw, x, w):
    s = sigmoid(x)
    return dx * w * (s + x * STEEP * s * (1 - s)) + dw * x * s


def shaped(x, w):
    return x.new_empty(torch.broadcast_shapes(x.shape, w.shape))


def by_hand(info, in_dims, x, w):
    dx, dw = in_dims
    x = x[None] if dx is None else np.moveaxis(x, dx, 0)
    w = w[None] if dw is None else np.moveaxis(w, dw, 0)
    w = w.reshape(len(w), *[1] * (x.ndim - w.ndim), *w.shape[1:])
    made = forward(x, w)
    return np.broadcast_to(made, (info.batch_size, *made.shape[1:])), 0


def in_torch(x, w):
    return torch.from_numpy(forward(x.numpy(), w.numpy()))


def pull_in_torch(g, x, w):
    return [torch.from_numpy(v) for v in backward(g.numpy(), x.numpy(), w.numpy())]


def two(x, w):
    y = forward(x, w)
    return y / 2, sigmoid(x), y


def pull_two(g, _, h, x, w):
    return backward(g / 2 + h, x, w)


def from_outputs(g, _, h, y, s, twice, x, w):
    assert np.array_equal(2 * y, twice)
    g = g / 2 + h
    return g * w * (s + x * STEEP * s * (1 - s)), g * x * s


external = backproof.external
FIRST_ORDER = {
    "loop": external(forward, backward, jvp=push, fake=shaped, name="loop"),
    "broadcast": external(
        forward, backward, jvp=push, fake=shaped, vmap="broadcast", name="wide"
    ),
    "elementwise": external(forward, backward, elementwise=True, name="elementwise"),
    "own rule": external(
        forward, backward, jvp=push, fake=shaped, vmap=by_hand, name="rule"
    ),
    "tensors": external(
        in_torch, pull_in_torch, elementwise=True, takes="torch", name="tensors"
    ),
}
SECOND_ORDER = {
    "second_order": external(
        forward, backward, fake=shaped, second_order=pulled, name="second"
    ),
    "elementwise and second_order": external(
        forward, backward, elementwise=True, second_order=pulled, name="smooth"
    ),
}
_several = {
    name: external(
        two,
        rule,
        fake=lambda x, w: (shaped(x, w), torch.empty_like(x), shaped(x, w)),
        outputs=3,
        with_outputs=name == "with outputs",
        vmap="broadcast",
        second_order=second,
        name=name.replace(" ", "_"),
    )
    for name, rule, second in (
        ("several", pull_two, lambda g, _, h, x, w: pulled(g / 2 + h, x, w)),
        (
            "with outputs",
            from_outputs,
            lambda g, _, h, y, s, t, x, w: pulled(g / 2 + h, x, w),
        ),
    )
}


def combined(kernel):
    def run(x, w):
        half, _, whole = kernel(x, w)
        return half + whole / 2

    return run


SECOND_ORDER |= {name: combined(kernel) for name, kernel in _several.items()}
