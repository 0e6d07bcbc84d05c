"""A model that trains, with a gradient that is wrong: the loss falls all the same.

    python examples/audit/train.py --steps 20
    backproof audit examples/audit/train.py --steps 20

Three custom Functions: `Softplus` is right, `Quantise` lets the gradient of a rounding
straight through, and `Normalise` takes the norm of its input for a constant.
"""

import argparse

import torch
from torch.autograd.function import once_differentiable


class Softplus(torch.autograd.Function):
    """log(1 + exp(x)), with a backward that does not overflow."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.nn.functional.softplus(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.sigmoid(x)


class Quantise(torch.autograd.Function):
    """Eighths; the gradient passes as if nothing had been rounded."""

    @staticmethod
    def forward(ctx, x):
        return (8 * x).round() / 8

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


class Normalise(torch.autograd.Function):
    """Rows of length one."""

    @staticmethod
    def forward(ctx, x):
        length = x.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(length)
        return x / length

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (length,) = ctx.saved_tensors
        return grad_output / length


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    first, second = torch.nn.Linear(4, 16), torch.nn.Linear(16, 1)
    weights = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.Adam(weights, lr=0.02)
    x = torch.randn(64, 4)
    y = x[:, :1].sin()
    for _ in range(steps):
        hidden = Normalise.apply(Softplus.apply(first(x)))
        loss = (second(Quantise.apply(hidden)) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.2f} after {steps} steps")


if __name__ == "__main__":
    main()
