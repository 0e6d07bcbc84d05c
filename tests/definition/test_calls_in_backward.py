"""A Function that another's backward calls has a rule of its own."""

import pytest
import torch

import backproof


class Product(backproof.Function):
    """x y, computed out of autograd's sight; its backward calls itself."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return torch.from_numpy(x.detach().numpy() * y.detach().numpy())

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return Product.apply(g, y), Product.apply(g, x)


def test_a_backward_made_of_functions_can_be_differentiated():
    x = torch.linspace(-1, 1, 5, dtype=torch.float64, requires_grad=True)
    y = torch.linspace(1, 3, 5, dtype=torch.float64, requires_grad=True)

    def second(product):
        (slope,) = torch.autograd.grad((product(x, y) ** 2).sum(), x, create_graph=True)
        return torch.autograd.grad(slope.sum(), (x, y))

    for found, true in zip(second(Product.apply), second(torch.mul), strict=True):
        torch.testing.assert_close(found, true)


class Replay(backproof.Function):
    """tanh(x w), whose backward runs forward again under autograd, as checkpoint does."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.tanh(x * w)

    @staticmethod
    def backward(ctx, g):
        with torch.enable_grad():
            again = [t.detach().requires_grad_() for t in ctx.saved_tensors]
            y = torch.tanh(again[0] * again[1])
        return torch.autograd.grad(y, again, g)


def composed(x, w):
    return torch.tanh(x * w)


WAYS = {
    "grad": lambda op: torch.func.grad(lambda x, w: op(x, w).sin().sum()),
    "vmap of grad": lambda op: torch.func.vmap(
        torch.func.grad(lambda x, w: op(x, w).sin().sum()), in_dims=(0, None)
    ),
    "compiled grad": lambda op: torch.compile(
        torch.func.grad(lambda x, w: op(x, w).sin().sum()),
        backend="aot_eager",
        fullgraph=True,
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_replayed_forward_is_right_under_transforms(way):
    x = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)
    w = torch.linspace(0.5, 1.5, 3, dtype=torch.float64)
    torch.testing.assert_close(way(Replay.apply)(x, w), way(composed)(x, w))


def test_a_replayed_forward_has_no_second_derivative():
    x = torch.ones(3, dtype=torch.float64)
    with pytest.raises(backproof.NoDerivative):
        torch.func.hessian(lambda x: Replay.apply(x, x).sum())(x)
