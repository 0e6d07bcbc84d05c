"""Things that people do with a Function in eager mode, whatever its base is.

Each scenario takes the base class and returns what can be compared: numbers, names,
tensors. What it raises is compared too.
"""

import torch

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__.replace("_", " ")] = function
    return function


def leaf(*shape):
    random = torch.Generator().manual_seed(len(shape))
    return torch.rand(
        shape or (3,), generator=random, dtype=torch.float64
    ).requires_grad_()


def cube(base):
    class Cube(base):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * g * x**2

    return Cube


def returning(base, gradient):
    """An identity whose backward returns `gradient(g)`."""

    class Odd(base):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return gradient(g)

    return Odd


def product(base, *, seen=None, options=()):
    class Product(base):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, g):
            if seen is not None:
                seen.append(ctx.needs_input_grad)
            x, w = ctx.saved_tensors
            return g * w, g * x

    for name, value in options:
        setattr(Product, name, value)
    return Product
