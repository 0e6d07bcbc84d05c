"""Under autocast both directions run in the type that the class names."""

import functools

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import backproof
from tests.definition.matrix_product import inputs, product

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
lower = functools.partial(torch.autocast, "cpu", dtype=BF16)


def eager(op, x, w):
    with lower():
        y = op(x, w)
    return y, *torch.autograd.grad(y.double().sum(), (x, w))


def all_inside(op, x, w):
    with lower():
        y = op(x, w)
        return y, *torch.autograd.grad(y.double().sum(), (x, w))


def recomputed(op, x, w):
    with lower():
        y = checkpoint(op, x, w, use_reentrant=False)
    return y, *torch.autograd.grad(y.double().sum(), (x, w))


def compiled_within(op, x, w):
    torch._dynamo.reset()
    return eager(torch.compile(op, backend="aot_eager", fullgraph=True), x, w)


def compiled_with_it(op, x, w):
    def run(x, w):
        with lower():
            return op(x, w)

    torch._dynamo.reset()
    y = torch.compile(run, backend="aot_eager", fullgraph=True)(x, w)
    return y, *torch.autograd.grad(y.double().sum(), (x, w))


def func(op, x, w):
    with lower():
        y = op(x, w).detach()
        gradients = torch.func.grad(lambda x, w: op(x, w).double().sum(), (0, 1))(x, w)
    return y, *gradients


def func_vmap(op, x, w):
    with lower():
        return torch.vmap(lambda row: op(row[None], w)[0])(x), *eager(op, x, w)[1:]


WAYS = [
    eager,
    all_inside,
    recomputed,
    compiled_within,
    compiled_with_it,
    func,
    func_vmap,
]
CASTS = [
    ("promote", (BF16, F32), F32),
    ("promote", (BF16, BF16), BF16),
    ("promote", (F16, F32), F32),
    ("float32", (BF16, BF16), F32),
    ("float32", (F32, F32), F32),
    ("lower", (F32, F32), BF16),
    ("lower", (F16, F32), BF16),
    ("lower", (F64, F64), F64),
]


@pytest.mark.parametrize("run", WAYS, ids=lambda run: run.__name__)
@pytest.mark.parametrize(
    ("policy", "given", "inside"),
    CASTS,
    ids=lambda part: str(part).replace("torch.", ""),
)
def test_autocast_runs_both_directions_in_one_type(policy, given, inside, run):
    x, w = inputs(*given)
    y, *gradients = run(product(autocast=policy), x, w)
    one, other = (t.detach().to(inside) for t in (x, w))
    ones = torch.ones(3, 2, dtype=inside)
    assert y.dtype == inside
    torch.testing.assert_close(y, one @ other)
    expected = [(ones @ other.t()).to(x.dtype), (one.t() @ ones).to(w.dtype)]
    torch.testing.assert_close(gradients, expected)
    assert [g.dtype for g in gradients] == list(given)


@pytest.mark.parametrize("base", [backproof.Function, torch.autograd.Function], ids=str)
def test_without_a_policy_it_is_left_to_the_operations(base):
    class Product(base):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g @ w.t(), x.t() @ g

    y, *gradients = all_inside(Product.apply, *inputs(F32, F32))
    expected = all_inside(torch.matmul, *inputs(F32, F32))
    assert y.dtype == BF16
    torch.testing.assert_close([y, *gradients], list(expected))


@pytest.mark.parametrize("policy", ["promote", "float32", "lower"], ids=str)
@pytest.mark.parametrize("dtype", [F32, F64, BF16], ids=str)
def test_outside_of_autocast_nothing_is_cast(policy, dtype):
    x, w = inputs(dtype, dtype)
    y = product(autocast=policy)(x, w)
    assert y.dtype == dtype
    assert torch.equal(y, x @ w)


def test_integers_and_lists_are_cast_by_what_they_hold():
    seen = []

    class Sum(backproof.Function):
        autocast = "float32"

        @staticmethod
        def forward(ctx, parts, index):
            seen.extend([*parts, index])
            seen.append(torch.is_autocast_enabled("cpu"))
            return parts[0] + parts[1]

        @staticmethod
        def backward(ctx, g):
            seen.append(torch.is_autocast_enabled("cpu"))
            return [g, g], None

    x, w = inputs(BF16, BF16)
    with lower():
        y = Sum.apply([x, w.t().new_ones(3, 4)], torch.tensor([1]))
        y.sum().backward()
    assert [s.dtype for s in seen[:3]] == [F32, F32, torch.int64]
    assert seen[3:] == [False, False]
    assert x.grad.dtype == BF16
