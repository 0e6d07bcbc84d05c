"""A Function that another's backward calls has a rule of its own."""

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
