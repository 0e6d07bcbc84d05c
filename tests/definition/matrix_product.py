"""A matrix product, which autocast would run in its own type."""

import torch

import backproof


def product(**policies):
    class Product(backproof.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g @ w.t(), x.t() @ g

    return type(Product)("Product", (Product,), policies).apply


def inputs(*dtypes):
    random = torch.Generator().manual_seed(0)
    x = torch.rand(3, 4, generator=random, dtype=torch.float64) + 0.5
    w = torch.rand(4, 2, generator=random, dtype=torch.float64) + 0.5
    return [t.to(d).requires_grad_() for t, d in zip((x, w), dtypes, strict=True)]
