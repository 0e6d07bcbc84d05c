"""Whatever can be called can be checked: right passes, and wrong is found, in any form."""

import dataclasses
from collections import OrderedDict
from typing import NamedTuple

import pytest
import torch
from torch import nn

import backproof
from tests.battery.subjects import normal


class Scale(torch.autograd.Function):
    """factor * x, with a gradient of `claimed` * factor."""

    @staticmethod
    def forward(ctx, x, factor, claimed):
        ctx.factor = factor * claimed
        return factor * x

    @staticmethod
    def backward(ctx, g):
        return ctx.factor * g, None, None


class Pair(NamedTuple):
    left: object
    right: object


@dataclasses.dataclass
class Record:
    left: object
    right: object


@dataclasses.dataclass(frozen=True)
class Frozen:
    left: object
    right: object


def verdicts(call, *arguments, **keywords):
    """Of `call(scale, ...)` for a right `scale` and for one that is 10 % off."""

    def right(*arguments, **keywords):
        return call(lambda x: Scale.apply(x.sin(), 3.0, 1.0), *arguments, **keywords)

    def wrong(*arguments, **keywords):
        return call(lambda x: Scale.apply(x.sin(), 3.0, 1.1), *arguments, **keywords)

    found = [
        backproof.check(subject, *arguments, **keywords) for subject in (right, wrong)
    ]
    return [report.verdict.value for report in found]


RIGHT_AND_WRONG = ["pass", "wrong"]
x, y = normal(6), normal(4, 3, seed=1)

OUTPUTS = {
    "tuple": lambda f, x: (x * 2, f(x)),
    "list": lambda f, x: [f(x), x.exp()],
    "nested": lambda f, x: (x, {"a": [f(x)], "b": None}),
    "dict": lambda f, x: {"value": f(x), "size": 6},
    "ordered dict": lambda f, x: OrderedDict(value=f(x)),
    "named tuple": lambda f, x: Pair(f(x), x),
    "dataclass": lambda f, x: Record(None, f(x)),
    "frozen dataclass": lambda f, x: Frozen(f(x), "word"),
    "indices beside": lambda f, x: (f(x), x.argsort()),
    "detached beside": lambda f, x: (f(x), x.detach()),
    "none beside": lambda f, x: (None, f(x)),
    "zero-dimensional": lambda f, x: f(x).sum(),
    "empty beside": lambda f, x: (f(x), x[:0]),
    "a view": lambda f, x: f(x).view(2, 3).mT,
    "the same twice": lambda f, x: [f(x)] * 2,
    "complex": lambda f, x: torch.complex(f(x), x),
    "coarser": lambda f, x: (f(x), x.float()),
}


@pytest.mark.parametrize("call", OUTPUTS.values(), ids=OUTPUTS)
def test_outputs(call):
    assert verdicts(call, x) == RIGHT_AND_WRONG


ARGUMENTS = {
    "list": (lambda f, parts: f(parts[0]) * parts[1].sum(), ([x, y],)),
    "tuple": (lambda f, parts: f(parts[1]), ((2, x),)),
    "dict": (lambda f, state: f(state["h"]) + state["c"], ({"h": x, "c": 1.0},)),
    "nested": (lambda f, deep: f(deep["a"][0][1]), ({"a": [(None, x)]},)),
    "named tuple": (lambda f, pair: f(pair.left) * pair.right.sum(), (Pair(x, y),)),
    "dataclass": (lambda f, pair: f(pair.left) * pair.right.sum(), (Record(x, y),)),
    "frozen dataclass": (lambda f, pair: f(pair.right), (Frozen(None, x),)),
    "others": (
        lambda f, x, n, word, flag, none, call: f(x) * n + len(word) + call(1),
        (x, 2, "word", True, None, abs),
    ),
    "integers and booleans": (
        lambda f, x, at, mask: f(x)[at] * mask,
        (x, torch.tensor([1, 2]), torch.tensor([True, True])),
    ),
    "the same twice": (lambda f, a, b: f(a) * b, (x, x)),
    "zero-dimensional": (
        lambda f, a, x: f(a) * x,
        (torch.tensor(0.7).requires_grad_(), x),
    ),
    "one element": (lambda f, a: f(a), (normal(1),)),
    "empty beside": (lambda f, x, e: f(x) + e.sum(), (x, normal(0, 3))),
    "half of them needing none": (
        lambda f, x, a: f(x) * a,
        (x, normal(6, grad=False, seed=3)),
    ),
}


@pytest.mark.parametrize(("call", "arguments"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments(call, arguments):
    assert verdicts(call, *arguments) == RIGHT_AND_WRONG


def test_keyword_arguments():
    def call(f, a, *, b, power=2):
        return f(a) * b**power

    assert verdicts(call, x, b=normal(6, seed=2)) == RIGHT_AND_WRONG
    assert verdicts(call, x, b=normal(6, seed=2), power=3) == RIGHT_AND_WRONG


def test_keyword_inputs_are_named():
    report = backproof.check(lambda a, b: a * b["w"], x, b={"w": normal(6, seed=2)})
    assert list(report.subjects[0].resolution) == ["a", "b['w']"]


def test_a_wrong_input_is_named():
    def forward(parts):
        return parts[0] * Scale.apply(parts[1], 3.0, 1.1)

    report = backproof.check(forward, [x, normal(6, seed=2)], laws={"BP101"})
    (finding,) = report.findings
    assert "parts[1]" in finding.title
    assert "parts[0]" not in finding.title


# ---------------------------------------------------------------------------- the types

MIXED = {
    "float32 and float64": (torch.float32, torch.float64),
    "bfloat16 and float32": (torch.bfloat16, torch.float32),
    "float16 and float64": (torch.float16, torch.float64),
}


@pytest.mark.parametrize(("one", "other"), MIXED.values(), ids=MIXED)
def test_mixed_types(one, other):
    inputs = normal(200, dtype=one), normal(200, dtype=other, seed=1)
    assert verdicts(lambda f, a, b: f(a) * b, *inputs) == RIGHT_AND_WRONG
    assert verdicts(lambda f, a, b: a * f(b), *inputs) == RIGHT_AND_WRONG


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str
)
def test_each_type(dtype):
    assert verdicts(lambda f, a: f(a), normal(500, dtype=dtype)) == RIGHT_AND_WRONG


@pytest.mark.parametrize("dtype", [torch.complex128, torch.complex64], ids=str)
def test_complex(dtype):
    z = torch.randn(8, generator=torch.Generator().manual_seed(0), dtype=dtype)
    z.requires_grad_()
    real = z.detach().real.clone().requires_grad_()
    assert verdicts(lambda f, z: f(z) * z.conj(), z) == RIGHT_AND_WRONG
    assert verdicts(lambda f, z: f(z).abs(), z) == RIGHT_AND_WRONG
    assert verdicts(lambda f, z, r: torch.complex(f(r), r) * z, z, real) == (
        RIGHT_AND_WRONG
    )


def test_a_missing_conjugate_is_found():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * b, g * a.conj()

    a = torch.randn(5, dtype=torch.complex128, requires_grad=True)
    b = torch.randn(5, dtype=torch.complex128, requires_grad=True)
    report = backproof.check(Product, a, b)
    assert report.verdict == "wrong"
    assert "`a`" in report.findings[0].title


# ---------------------------------------------------------------------------- the target


class Layer(nn.Module):
    """One parameter is right, and one is off where `claimed` is not one."""

    claimed = 1.0

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(normal(6, seed=5).detach())
        self.inner = nn.Linear(6, 3).double()
        self.register_buffer("offset", torch.ones(6, dtype=torch.float64))

    def forward(self, x):
        return self.inner(x * Scale.apply(self.weight, 2.0, self.claimed) + self.offset)


class WrongLayer(Layer):
    claimed = 1.1


def test_a_module_and_its_parameters():
    torch.manual_seed(0)
    report = backproof.check(Layer(), normal(4, 6))
    assert report.verdict == "pass"
    assert {"weight", "inner.weight", "inner.bias"} < set(report.subjects[0].resolution)
    report = backproof.check(WrongLayer(), normal(4, 6))
    assert report.verdict == "wrong"
    assert "`weight`" in report.findings[0].title


def test_a_module_whose_inputs_need_no_gradient():
    report = backproof.check(Layer(), normal(4, 6, grad=False))
    assert report.verdict == "pass"
    assert set(report.subjects[0].resolution) == {
        "weight",
        "inner.weight",
        "inner.bias",
    }


def test_a_module_class_is_built():
    assert backproof.check(Layer, normal(4, 6)).verdict == "pass"
    assert backproof.check(WrongLayer, normal(4, 6)).verdict == "wrong"


def test_frozen_parameters_are_no_inputs():
    layer = Layer()
    layer.inner.requires_grad_(False)
    report = backproof.check(layer, normal(4, 6, grad=False))
    assert list(report.subjects[0].resolution) == ["weight"]


def test_tied_parameters_are_one_input():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4, bias=False).double()
            self.second = nn.Linear(4, 4, bias=False).double()
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(torch.tanh(self.first(x)))

    torch.manual_seed(0)
    report = backproof.check(Tied(), normal(5, 4, grad=False))
    assert report.verdict == "pass"
    assert list(report.subjects[0].resolution) == ["first.weight"]


@pytest.mark.parametrize("train", [True, False], ids=["training", "evaluation"])
def test_batch_norm(train):
    norm = nn.BatchNorm1d(5).double().train(train)
    norm.running_mean += 1
    kept = {k: v.clone() for k, v in norm.state_dict().items()}
    assert backproof.check(norm, normal(12, 5)).verdict == "pass"
    assert norm.training is train
    assert all(torch.equal(kept[k], v) for k, v in norm.state_dict().items())


CALLABLES = {
    "Function": Scale,
    "apply": Scale.apply,
    "lambda": lambda x, factor, claimed: 1.0 * Scale.apply(x, factor, claimed),
    "a method": type("Ops", (), {"call": lambda self, *a: Scale.apply(*a)})().call,
    "an object": type("Op", (), {"__call__": lambda self, *a: Scale.apply(*a)})(),
}


@pytest.mark.parametrize("target", CALLABLES.values(), ids=CALLABLES)
def test_callables(target):
    assert backproof.check(target, x, 3.0, 1.0).verdict == "pass"
    assert backproof.check(target, x, 3.0, 1.1).verdict == "wrong"


def test_a_custom_operator():
    @torch.library.custom_op("backproof_tests::tripled", mutates_args=())
    def tripled(x: torch.Tensor) -> torch.Tensor:
        return 3 * x

    tripled.register_fake(torch.empty_like)
    tripled.register_autograd(lambda ctx, g: 3 * g)
    assert backproof.check(tripled, normal(5)).verdict == "pass"
    tripled.register_autograd(lambda ctx, g: 3.1 * g)
    assert backproof.check(tripled, normal(5)).verdict == "wrong"


# ------------------------------------------------------------------------- the options


def test_the_name_is_free():
    report = backproof.check(lambda x: x.sin(), x, name="wave")
    assert report.subjects[0].name == "wave"


def test_domains_are_respected():
    seen = []

    def forward(x):
        seen.append((float(x.detach().min()), float(x.detach().max())))
        return torch.log(x) + torch.log(0.5 - x)

    values = torch.tensor([1e-3, 0.25, 0.5 - 1e-6]).double().requires_grad_()
    domain = backproof.Domain(low=0.0, high=0.5)
    assert backproof.check(forward, values, domains={"x": domain}).verdict == "pass"
    assert all(low > 0 and high < 0.5 for low, high in seen)


def test_single_laws_can_be_asked():
    report = backproof.check(Scale, x, 3.0, 1.1, laws={"BP104", "BP109"})
    assert [o.code for o in report.subjects[0].outcomes] == ["BP109", "BP104"]
    assert report.verdict == "pass"
