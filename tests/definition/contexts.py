"""Ways to call an op of (x, w); each returns tensors that are compared."""

import torch
import torch.autograd.forward_ad as forward_ad
from torch.func import (
    functionalize,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
)
from torch.utils.checkpoint import checkpoint

EAGER, FUNC = {}, {}
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


# ---------------------------------------------------------------------- torch.func


@context(FUNC, order=1)
def func_grad(op):
    return grad(scalar(op), argnums=(0, 1))(*numbers())


@context(FUNC, order=1)
def func_vjp(op):
    y, pull = vjp(op, *numbers())
    return [y, *pull(y.exp())]


@context(FUNC, order=1)
def func_jvp(op):
    x, w = numbers()
    return jvp(op, (x, w), (x.cos(), w.exp()))


@context(FUNC, order=1)
def func_linearize(op):
    x, w = numbers()
    y, push = linearize(lambda x: op(x, w), x)
    return [y, push(x.exp())]


@context(FUNC, order=1)
def jacobians(op):
    x, w = numbers()
    both = [of(op, argnums=(0, 1))(x[0], w) for of in (jacrev, jacfwd)]
    return [*both[0], *both[1]]


def _second(outer, inner):
    def run(op):
        x, w = numbers()
        found = outer(inner(scalar(op), argnums=(0, 1)), argnums=(0, 1))(x[0], w)
        return [block for row in found for block in row]

    return run


for one in (jacrev, jacfwd):
    for other in (jacrev, jacfwd, grad):
        FUNC[f"{one.__name__} of {other.__name__}"] = _second(one, other)


@context(FUNC)
def jvp_of_jvp(op):
    x, w = numbers()

    def inner(x, w):
        return jvp(op, (x, w), (x.cos(), w.exp()))[1]

    return jvp(inner, (x, w), (x.sin(), w.sin()))


@context(FUNC)
def third_derivative(op):
    x, w = numbers()
    return [jacfwd(jacrev(jacfwd(lambda x: scalar(op)(x, w))))(x[0])]


@context(FUNC, order=1)
def vmap_over_rows(op):
    return [vmap(op, in_dims=(0, None))(*numbers())]


@context(FUNC, order=1)
def vmap_over_columns(op):
    x, w = numbers()
    return [vmap(op, in_dims=(1, None), out_dims=1)(x.t(), w)]


@context(FUNC, order=1)
def vmap_over_weights(op):
    x, w = numbers()
    return [vmap(op, in_dims=(None, -1), out_dims=-1)(x, torch.stack([w, -w], 1))]


@context(FUNC, order=1)
def vmap_of_one_and_of_none(op):
    x, w = numbers()
    return [vmap(op, (0, None))(x[:n], w) for n in (1, 0)]


@context(FUNC, order=1)
def vmap_of_grad_of_one_and_of_none(op):
    x, w = numbers()
    each = vmap(grad(scalar(op), argnums=(0, 1)), (0, None))
    return [*each(x[:1], w), *each(x[:0], w)]


@context(FUNC, order=1)
def vmap_of_vmap(op):
    x, w = numbers()
    x = torch.stack([x, x.exp()], 2)  # 4 entries of (3, 2)
    inner = vmap(op, in_dims=(1, None), out_dims=1)
    weights = torch.stack([w, w.exp(), -w, w.sin()], 1)
    return [vmap(inner, in_dims=(0, 1), out_dims=2)(x, weights)]


@context(FUNC, order=1)
def vmap_in_chunks(op):
    return [vmap(op, in_dims=(0, None), chunk_size=3)(*numbers())]


@context(FUNC, order=1)
def backward_of_vmap(op):
    x, w = leaves()
    y = vmap(op, in_dims=(0, None))(x, w)
    return torch.autograd.grad(y.sin().sum(), (x, w))


@context(FUNC)
def double_backward_of_vmap(op):
    return double_backward(vmap(op, in_dims=(0, None)))


@context(FUNC, order=1)
def vmap_of_grad(op):
    x, w = numbers()
    return vmap(grad(scalar(op), argnums=(0, 1)), in_dims=(0, None))(x, w)


@context(FUNC, order=1)
def grad_of_vmap(op):
    mapped = vmap(op, in_dims=(1, None), out_dims=1)
    return grad(lambda x, w: mapped(x.t(), w).sin().sum(), argnums=(0, 1))(*numbers())


@context(FUNC, order=1)
def jvp_of_vmap(op):
    x, w = numbers()
    return jvp(vmap(op, in_dims=(0, None)), (x, w), (x.cos(), w.exp()))


@context(FUNC, order=1)
def vmap_of_jvp(op):
    x, w = numbers()
    each = vmap(lambda x, dx: jvp(op, (x, w), (dx, w.exp())), in_dims=(0, 1))
    return each(x, x.cos().t())


@context(FUNC)
def vmap_of_hessian(op):
    return [vmap(hessian(scalar(op)), in_dims=(0, None))(*numbers())]


@context(FUNC)
def hessian_of_vmap(op):
    x, w = numbers()
    mapped = vmap(op, in_dims=(0, None))
    return [hessian(lambda w: mapped(x, w).sin().sum())(w)]


@context(FUNC)
def grad_of_vmap_of_grad(op):
    inner = vmap(grad(scalar(op)), in_dims=(0, None))
    return grad(lambda x, w: inner(x, w).sin().sum(), argnums=(0, 1))(*numbers())


@context(FUNC)
def backward_of_func_grad(op):
    x, w = leaves()
    first = grad(scalar(op))(x, w)
    return [first, *torch.autograd.grad(first.sin().sum(), (x, w))]


@context(FUNC)
def dual_numbers_of_func_grad(op):
    x, w = numbers()
    with forward_ad.dual_level():
        y = grad(scalar(op))(forward_ad.make_dual(x, x.exp()), w)
        return list(forward_ad.unpack_dual(y))


@context(FUNC, order=1)
def grad_with_a_tracked_weight(op):
    x, w = leaves()
    first = vmap(lambda x: op(x, w))(x)
    return torch.autograd.grad(first.sin().sum(), (x, w))


@context(FUNC, order=1)
def func_functionalize(op):
    x, w = numbers()
    return [functionalize(op)(x, w), *functionalize(grad(scalar(op)))(x, w)]
