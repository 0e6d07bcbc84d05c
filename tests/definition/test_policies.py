"""What a class asks for by name, it gets in every context; test_autocast.py has one."""

import types
import warnings

import pytest
import torch

import backproof
from tests.definition.matrix_product import inputs, product

F64 = torch.float64


# ----------------------------------------------------------------------- contiguous


def watched(seen, **policies):
    class Watched(backproof.Function):
        @staticmethod
        def forward(ctx, x, others):
            seen.extend([x.is_contiguous(), others[0].is_contiguous()])
            ctx.save_for_backward(x, others[0])
            return x * others[0]

        @staticmethod
        def backward(ctx, g):
            seen.append(g.is_contiguous())
            x, w = ctx.saved_tensors
            return g * w, [g * x]

    return type(Watched)("Watched", (Watched,), policies).apply


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "not asked"])
def test_contiguous_memory_reaches_both_directions(asked):
    seen = []
    x, w = inputs(F64, F64)
    op = watched(seen, contiguous=asked)
    other = w.expand(3, 4, 2)[:, :, 0]
    y = op(x.t(), [other.t()])
    y.backward(torch.ones((), dtype=F64).expand(4, 3))
    assert seen == [asked] * 3
    torch.testing.assert_close(x.grad, other)
    del seen[:]
    torch.func.grad(lambda x: op(x.t(), [other.t()]).sum())(x.detach())
    assert seen[:2] == [asked] * 2


def test_contiguous_memory_reaches_each_entry_of_a_batch():
    seen = []

    class Read(backproof.Function):
        contiguous = True

        @staticmethod
        def forward(ctx, x):
            float(x.sum())  # so that vmap has to loop
            seen.append(x.is_contiguous())
            return x * 2

        @staticmethod
        def backward(ctx, g):
            float(g.sum())
            seen.append(g.is_contiguous())
            return g * 2

    x = torch.rand(3, 2, 4, dtype=F64, requires_grad=True)
    torch.vmap(Read.apply, in_dims=2, out_dims=2)(x).exp().sum().backward()
    assert len(seen) >= 8
    assert all(seen)


# --------------------------------------------------------------------- deterministic


def atomic(**policies):
    return product(deterministic=False, **policies)


@pytest.fixture
def deterministic():
    def use(*, warn_only):
        torch.use_deterministic_algorithms(True, warn_only=warn_only)

    yield use
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    "call",
    [
        lambda op, x, w: op(x, w),
        lambda op, x, w: torch.func.grad(lambda x: op(x, w).sum())(x),
        lambda op, x, w: torch.vmap(lambda row: op(row[None], w))(x),
    ],
    ids=["eager", "func.grad", "vmap"],
)
def test_an_op_without_a_fixed_order_raises_or_warns(call, deterministic):
    x, w = (t.detach() for t in inputs(F64, F64))
    call(atomic(), x, w)
    deterministic(warn_only=False)
    with pytest.raises(RuntimeError, match=r"^Product is declared `deterministic = F"):
        call(atomic(), x, w)
    call(product(), x, w)
    deterministic(warn_only=True)
    with pytest.warns(UserWarning, match="^Product is declared") as seen:
        call(atomic(), x, w)
    assert seen[0].filename == __file__


def test_nothing_is_said_where_nothing_was_asked():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        atomic()(*inputs(F64, F64))


# ---------------------------------------------------------------------- device guard


@pytest.fixture
def current(monkeypatch):
    """The devices that were current while methods ran, on a machine that pretends."""
    stack, seen = ["none"], []

    class Device:
        def __init__(self, index):
            self.index = index

        def __enter__(self):
            stack.append(self.index)

        def __exit__(self, *error):
            stack.pop()

    module = types.SimpleNamespace(device=Device)
    monkeypatch.setattr(torch, "get_device_module", lambda kind: module)
    monkeypatch.setattr(
        "backproof.definition.policies._device", lambda values: torch.device("cuda", 1)
    )
    return types.SimpleNamespace(stack=stack, seen=seen)


@pytest.mark.parametrize(
    ("asked", "expected"), [(True, 1), (False, "none")], ids=["asked", "not asked"]
)
def test_the_device_of_the_inputs_is_the_current_one(asked, expected, current):
    class Launch(backproof.Function):
        device_guard = asked

        @staticmethod
        def forward(ctx, x):
            current.seen.append(current.stack[-1])
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x, _ = inputs(F64, F64)
    Launch.apply(x).sum().backward()
    torch.func.grad(lambda x: Launch.apply(x).sum())(x.detach())
    assert current.seen == [expected] * 2
    assert current.stack == ["none"]


def test_a_cpu_has_no_current_device():
    op = product(device_guard=True)
    x, w = inputs(F64, F64)
    assert torch.equal(op(x, w), x @ w)
