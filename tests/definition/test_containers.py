"""Gradients for containers of tensors come in the same containers, or are refused."""

import pytest
import torch

import backproof


def product(gradients):
    class Product(backproof.Function):
        @staticmethod
        def forward(ctx, given):
            ctx.save_for_backward(*given)
            return given[0] * given[1]

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return gradients(g * w, g * x)

    return Product.apply


def eager(op, x, w):
    x, w = (t.clone().requires_grad_() for t in (x, w))
    return torch.autograd.grad((op([x, w]) * w.exp().detach()).sum(), (x, w))


def func(op, x, w):
    weights = w.exp()
    loss = torch.func.grad(lambda x, w: (op([x, w]) * weights).sum(), (0, 1))
    return loss(x, w)


SHAPES = {"two rows": (2, 2), "a row": (2,), "rows": (4, 3)}
WAYS = {"eager": eager, "func": func}
GIVEN = {
    "a list in a tuple": lambda x, w: ([x, w],),
    "a tuple in a list": lambda x, w: [(x, w)],
    "the list alone": lambda x, w: [x, w],
    "a tensor for a list": lambda x, w: x,
    "one of two": lambda x, w: ([x],),
}


@pytest.mark.parametrize("take", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_gradients_reach_their_tensors_or_nobody(given, shape, take):
    x = torch.arange(1.0, 1 + torch.Size(shape).numel(), dtype=torch.float64)
    x, w = x.reshape(shape), x.reshape(shape).cos()
    expected = [w * w.exp(), x * w.exp()]
    try:
        found = take(product(GIVEN[given]), x, w)
    except (ValueError, TypeError, RuntimeError):
        assert given not in ("a list in a tuple", "a tuple in a list")
        return
    assert given != "one of two"
    torch.testing.assert_close(list(found), expected)


@pytest.mark.parametrize("take", WAYS.values(), ids=WAYS.keys())
def test_the_rows_of_a_tensor_are_no_gradients_of_a_list(take):
    class Outer(backproof.Function):
        @staticmethod
        def forward(ctx, given):
            ctx.save_for_backward(*given)
            return given[0][:, None] * given[1]

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g * w + g * x[:, None]  # not in a list

    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    with pytest.raises((ValueError, TypeError, RuntimeError), match="gradient"):
        take(Outer.apply, x, x.cos())
