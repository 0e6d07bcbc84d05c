"""A surrogate has the values of one function and the derivatives of another."""

import copy
import pickle

import pytest
import torch

import backproof
from backproof.errors import BadInput
from tests.definition import traced_contexts
from tests.definition.contexts import EAGER, compare, numbers
from tests.definition.func_contexts import FUNC, func_grad
from tests.definition.gates import hard, reference, soft

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr:UserWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning"),
]
gate = backproof.surrogate(hard, soft)


def both(x, w):
    return {"y": [hard(x, w)], "half": hard(x, w) / 2, "n": 4}


def both_soft(x, w):
    return {"y": [soft(x, w)], "half": soft(x, w) / 2, "n": 4}


nested = backproof.surrogate(both, both_soft)


def of_nested(x, w):
    made = nested(x, w)
    return made["y"][0] / 2 + made["half"]


CALLED = {**EAGER, **FUNC}
TRACED = {**traced_contexts.TRACED, **traced_contexts.EXPORTED}
COMPILED = ("compile dynamic", "compile of transforms", "compiled autograd")


@pytest.fixture(scope="module")
def expected():
    return {}


@pytest.mark.parametrize(
    "op", [gate, of_nested], ids=["one output", "a dict of outputs"]
)
@pytest.mark.parametrize("name", CALLED, ids=str)
def test_it_is_right_in_every_context(name, op, expected):
    if name not in expected:
        expected[name] = CALLED[name](reference)
    compare(CALLED[name](op), expected[name])


@pytest.mark.parametrize("name", [*TRACED, *COMPILED], ids=str)
def test_it_is_right_in_every_program(name):
    run = {**TRACED, **traced_contexts.COMPILED}[name]
    compare(run(gate), run(reference))


# ---------------------------------------------------------------------- exact values

TYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
AWKWARD = [0.1, -0.0, 1e30, -3.3, float("inf"), float("-inf"), float("nan"), 7e4, 1e-7]
ROUNDS = {
    "eager": lambda f, x: f(x),
    "vmap": lambda f, x: torch.vmap(f)(x),
    "grad": lambda f, x: torch.func.vjp(f, x)[0],
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,))[0],
    "no_grad": torch.no_grad()(lambda f, x: f(x)),
}


@pytest.mark.parametrize("run", ROUNDS.values(), ids=ROUNDS.keys())
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_the_values_are_those_of_hard_to_the_last_bit(dtype, run):
    x = torch.tensor(AWKWARD, dtype=torch.float64).to(dtype)
    through = backproof.surrogate(lambda x: (x / 3).round() * 3, lambda x: x * 1.1)
    found, wanted = run(through, x), (x / 3).round() * 3
    bits = {8: torch.int64, 4: torch.int32, 2: torch.int16}[x.element_size()]
    assert found.dtype == dtype
    assert torch.equal(found.view(bits), wanted.view(bits))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_the_gradient_is_softs_where_values_are_no_numbers(dtype):
    x = torch.tensor(AWKWARD, dtype=torch.float64).to(dtype).requires_grad_()
    sign = backproof.surrogate(torch.sign, torch.sigmoid)
    found, wanted = (torch.autograd.grad(f(x).sum(), x) for f in (sign, torch.sigmoid))
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


def test_every_order_is_softs():
    x = torch.linspace(-2, 2, 5, dtype=torch.float64)
    step = backproof.surrogate(lambda x: (x > 0).to(x.dtype), torch.sigmoid)
    derivative, soft_derivative = step, torch.sigmoid
    for _ in range(4):
        derivative = torch.func.grad(lambda x, f=derivative: f(x).sum())
        soft_derivative = torch.func.grad(lambda x, f=soft_derivative: f(x).sum())
        torch.testing.assert_close(derivative(x), soft_derivative(x))


# ------------------------------------------------------------------ what is not alike

UNLIKE = {
    "shape": (lambda x: x.sum(), r"shape \(\), soft torch.float64 of shape \(4, 3\)"),
    "type": (lambda x: x.float(), r"hard returns torch.float32 .* soft torch.float64"),
    "broadcast": (
        lambda x: x[:1],
        r"of shape \(1, 3\), soft .* \(4, 3\); make them al",
    ),
    "count": (lambda x: (x, x), "hard returns 2 values and soft 1"),
    "order": (lambda x: [x], "or in another order; let both return the same"),
}


@pytest.mark.parametrize(("bad", "says"), UNLIKE.values(), ids=UNLIKE.keys())
@pytest.mark.parametrize(
    "transform", [lambda f: f, torch.func.jacrev], ids=["eager", "f"]
)
def test_unlike_results_are_bad_input(bad, says, transform):
    x, _ = numbers()
    bad.__name__ = "rounded"
    with pytest.raises(BadInput, match=f"^rounded: .*{says}"):
        transform(backproof.surrogate(bad, lambda x: x))(x)


def test_what_is_no_tensor_is_hards():
    x, w = (tensor.requires_grad_() for tensor in numbers())
    assert nested(x, w)["n"] == 4


# ------------------------------------------------------------------------- an object


def test_it_tells_what_it_is_made_of():
    assert gate.hard is hard
    assert gate.soft is soft
    assert gate.__name__ == "hard"
    assert repr(gate).startswith("surrogate(<function hard")


@pytest.mark.parametrize(
    "again",
    [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))],
    ids=["deepcopy", "pickle"],
)
def test_a_copy_works(again):
    compare(func_grad(again(gate)), func_grad(reference))


def test_arguments_may_be_anything():
    def rounded(x, *, step, where):
        return torch.where(where["mask"], (x / step).round() * step, x)

    through = backproof.surrogate(rounded, lambda x, *, step, where: x * step)
    x, _ = numbers()
    x.requires_grad_()
    where = {"mask": x > 0}
    y = through(x, step=0.5, where=where)
    assert torch.equal(y, rounded(x, step=0.5, where=where))
    y.sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 0.5))


def test_numbers_drawn_by_hard_are_drawn_once():
    x, _ = numbers()
    noisy = backproof.surrogate(lambda x: x + torch.rand_like(x), lambda x: x)
    torch.manual_seed(1)
    found = noisy(x)
    torch.manual_seed(1)
    assert torch.equal(found, x + torch.rand_like(x))


def test_a_weight_that_only_one_side_reads():
    _, w = numbers()
    w.requires_grad_()
    y = backproof.surrogate(lambda w: w.round(), lambda w: w.detach())(w)
    assert not y.requires_grad
    only_hard = backproof.surrogate(lambda x: (x * w).round(), lambda x: x)
    x = w.detach().clone().requires_grad_()
    only_hard(x).sum().backward()
    assert w.grad is None
    assert torch.equal(x.grad, torch.ones_like(x))
