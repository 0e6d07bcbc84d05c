"""Ways to call an op of (x, w) in eager mode; each returns tensors that are compared."""

import torch
import torch.autograd.forward_ad as forward_ad
from torch.utils.checkpoint import checkpoint

EAGER = {}
FIRST_ORDER = set()


def context(where, *, order=2):
    def add(function):
        name = function.__name__.replace("_", " ")
        where[name] = function
        if order == 1:
            FIRST_ORDER.add(name)
        return function

    return add


def numbers():
    random = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, generator=random, dtype=torch.float64)
    return x, torch.linspace(0.5, 1.5, 3, dtype=torch.float64)


def leaves():
    return [tensor.requires_grad_() for tensor in numbers()]


def compare(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one is not None
        torch.testing.assert_close(one.detach(), other.detach(), rtol=1e-9, atol=1e-11)


def scalar(op):
    return lambda x, w: op(x, w).sin().sum()


# --------------------------------------------------------------------------- eager


@context(EAGER, order=1)
def without_gradients(op):
    with torch.no_grad():
        return [op(*numbers())]


@context(EAGER, order=1)
def inference_mode(op):
    with torch.inference_mode():
        return [op(*numbers()).clone()]


@context(EAGER, order=1)
def backward(op):
    x, w = leaves()
    y = op(x, w)
    y.sin().sum().backward()
    return [y, x.grad, w.grad]


@context(EAGER, order=1)
def one_input(op):
    x, w = numbers()
    w.requires_grad_()
    return torch.autograd.grad(op(x, w).sin().sum(), w)


@context(EAGER, order=1)
def expanded_cotangent(op):
    x, w = leaves()
    cotangent = torch.ones((), dtype=x.dtype).expand(4, 3)
    return torch.autograd.grad(op(x, w), (x, w), cotangent)


@context(EAGER)
def double_backward(op):
    x, w = leaves()
    first = torch.autograd.grad(op(x, w).sin().sum(), (x, w), create_graph=True)
    total = (first[0] ** 2).sum() + (first[1] * first[0].sum(0)).sum()
    return [*first, *torch.autograd.grad(total, (x, w))]


@context(EAGER)
def third_order(op):
    x, w = leaves()
    y = op(x.exp(), w.sin()).exp().sum()
    for _ in range(3):
        y = torch.autograd.grad(y, x, create_graph=True)[0].sin().sum()
    return [y, *torch.autograd.grad(y, (x, w))]


@context(EAGER, order=1)
def batched_cotangents(op):
    x, w = leaves()
    eye = torch.eye(3, dtype=x.dtype)
    return torch.autograd.grad(op(x[0], w), (x, w), eye, is_grads_batched=True)


@context(EAGER)
def batched_double_backward(op):
    x, w = leaves()
    (first,) = torch.autograd.grad(op(x[0], w).sin().sum(), x, create_graph=True)
    eye = torch.eye(3, dtype=x.dtype)
    return torch.autograd.grad(first[0], (x, w), eye, is_grads_batched=True)


@context(EAGER)
def functional_hessian(op):
    x, w = numbers()
    found = torch.autograd.functional.hessian(scalar(op), (x[0], w), vectorize=True)
    return [block for row in found for block in row]


@context(EAGER, order=1)
def dual_numbers(op):
    x, w = numbers()
    with forward_ad.dual_level():
        y = op(forward_ad.make_dual(x, x.exp()), w)
        return list(forward_ad.unpack_dual(y))


@context(EAGER)
def backward_of_dual_numbers(op):
    x, w = leaves()
    with forward_ad.dual_level():
        y = op(forward_ad.make_dual(x, x.detach().exp()), w)
        primal, tangent = forward_ad.unpack_dual(y)
        total = (primal.sin() + tangent.exp()).sum()
        return [tangent, *torch.autograd.grad(total, (x, w))]


@context(EAGER, order=1)
def checkpoint_without_reentry(op):
    return backward(lambda x, w: checkpoint(op, x, w, use_reentrant=False))


@context(EAGER, order=1)
def checkpoint_with_reentry(op):
    return backward(lambda x, w: checkpoint(op, x, w, use_reentrant=True))


@context(EAGER)
def checkpoint_twice(op):
    return double_backward(lambda x, w: checkpoint(op, x, w, use_reentrant=False))


@context(EAGER, order=1)
def saved_tensor_hooks(op):
    pack, unpack = (lambda t: (t.clone(),)), (lambda held: held[0])
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return backward(op)


@context(EAGER)
def saved_on_cpu(op):
    with torch.autograd.graph.save_on_cpu():
        return double_backward(op)
