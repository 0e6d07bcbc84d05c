"""The wrong examples of BP3xx show their fault, and the right ones do not."""

import pytest
import torch
from torch import func

# torch's own, when forward mode loads its decompositions
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")


def plain(module):
    return [x.detach() for x in module.inputs()]


def batch(seed=3, n=4):
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(n, 4, generator=gen, dtype=torch.double)


def test_bp301(wrong, right):
    xs = batch()
    one_by_one = xs - xs.mean(1, keepdim=True)
    assert not torch.allclose(func.vmap(wrong.op)(xs), one_by_one)
    assert torch.allclose(func.vmap(right.op)(xs), one_by_one)
    assert torch.allclose(func.vmap(right.op, in_dims=1)(xs.T.contiguous()), one_by_one)


def test_bp302(wrong, right):
    def gradients(module):
        (x,) = module.inputs()
        eager = torch.autograd.grad(module.op(x).sum(), x)[0]
        return eager, func.grad(lambda x: module.op(x).sum())(x.detach())

    assert not torch.allclose(*gradients(wrong))
    assert torch.allclose(*gradients(right))


def test_bp303(wrong, right):
    def twice(module):
        (x,) = plain(module)
        _, pull = func.vjp(module.op, x)
        one = torch.ones_like(x)
        return pull(one)[0][0].item(), pull(one)[0][0].item()

    assert twice(wrong) == (1.5, 1.0)
    assert twice(right) == (1.5, 1.5)


def test_bp304(wrong, right):
    def jacobian(module):
        x, y = plain(module)
        return func.jacrev(module.op)(x, y)

    _, y = plain(right)
    truth = torch.ones(4, 4, dtype=torch.double).tril() * y
    assert not torch.allclose(jacobian(wrong), truth)
    assert torch.allclose(jacobian(right), truth)
    # plain batches are right in both
    xs, ys = batch(1), batch(2)
    assert torch.allclose(func.vmap(wrong.op)(xs, ys), (xs * ys).cumsum(1))


def test_bp305(wrong, right):
    def tangent(module):
        (x,) = plain(module)
        return func.jvp(module.op, (x,), (torch.ones_like(x),))[1]

    (x,) = plain(right)
    assert torch.equal(tangent(wrong), torch.zeros_like(x))
    assert torch.allclose(tangent(right), 2 * x)


def test_bp306(wrong, right):
    def jacobian(module, argument):
        return func.jacfwd(module.op, argnums=argument)(*plain(module)).diagonal()

    x, w = plain(right)
    assert torch.equal(jacobian(wrong, 1), torch.zeros_like(x))
    assert torch.allclose(jacobian(right, 1), x)
    assert torch.allclose(jacobian(wrong, 0), w)
    assert torch.allclose(jacobian(right, 0), w)


def test_bp307(wrong, right):
    def hessian(module):
        (x,) = plain(module)
        return func.hessian(lambda x: module.op(x).sum())(x).diagonal()

    (x,) = plain(right)
    assert torch.equal(hessian(wrong), torch.zeros_like(x))
    assert torch.allclose(hessian(right), -x.sin())


def test_bp308(wrong, right):
    def per_sample(module):
        _, w = plain(module)
        gradient = func.grad(lambda w, x: module.op(x, w).sum())
        return func.vmap(gradient, in_dims=(None, 0))(w, batch())

    assert torch.allclose(per_sample(wrong), batch().sum(0).expand(4, 4))
    assert torch.allclose(per_sample(right), batch())
    _, w = plain(wrong)
    shared = func.vmap(wrong.op, in_dims=(0, None))(batch(), w)
    assert torch.allclose(shared, batch() * w)


def test_bp309(wrong, right):
    xs, ys = batch(1), batch(2)

    def uneven(module):
        return func.vmap(module.op, in_dims=(1, 0))(xs, ys)

    assert not torch.allclose(uneven(wrong), xs.T * ys)
    assert torch.allclose(uneven(right), xs.T * ys)
    for in_dims in ((0, None), (None, 0), (0, 0)):
        nested = func.vmap(func.vmap(right.op, in_dims=(0, 0)), in_dims=in_dims)
        a = xs if in_dims[0] is None else torch.stack([xs, 2 * xs])
        b = ys if in_dims[1] is None else torch.stack([ys, 3 * ys])
        assert torch.allclose(nested(a, b), a * b)
    assert torch.allclose(func.vmap(wrong.op)(xs, ys), xs * ys)
