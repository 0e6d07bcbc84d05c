"""Ways to call an op of (x, w) under torch.func; each returns tensors."""

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

from tests.definition.contexts import context, double_backward, leaves, numbers, scalar

FUNC = {}


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
