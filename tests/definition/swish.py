"""x sigmoid(x), whose rule uses the sigmoid that forward has made."""

import torch

import backproof

INNER = torch.tensor([0.3, -1.2, 2.0], dtype=torch.float64)


def leaf():
    return INNER.clone().requires_grad_()


def function(forward, backward, **options):
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(backproof.Function)("Op", (backproof.Function,), {**methods, **options})


def swish(x):
    return x * torch.sigmoid(x)


def second_derivative(op):
    x = leaf()
    (first,) = torch.autograd.grad(op(x).exp().sum(), x, create_graph=True)
    return torch.autograd.grad((first**2).sum(), x)[0]


def swish_rule(g, x, s):
    return g * (s + x * s * (1 - s))


def from_saved(ctx, g):
    return swish_rule(g, *ctx.saved_tensors)


def saved(ctx, x):
    s = torch.sigmoid(x)
    ctx.save_for_backward(x, s)
    return x * s


def output_alone(ctx, x):
    s = torch.sigmoid(x)
    ctx.save_for_backward(s)
    return x * s


def from_output_alone(ctx, g):
    (s,) = ctx.saved_tensors
    return swish_rule(g, torch.log(s / (1 - s)), s)


def first_of(op, x):
    return torch.autograd.grad(op(x).sum(), x, create_graph=True)[0]
