"""BP702: what backward keeps and computes in vain; a note."""

import torch

import backproof
from backproof.records import Severity
from tests.battery.laws.asking import (
    HELD,
    NOT_APPLICABLE,
    asked,
    doubled,
    each,
    function,
    outcome,
    saving,
)
from tests.battery.subjects import normal

x, w = normal(100, 200), normal(200, 50, seed=1)
NUM_BYTES = x.nbytes


def exponential(*keep):
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(*(make(x, y) for make in keep))
        return y

    return function(forward, lambda ctx, g: g * ctx.saved_tensors[-1])


def on_ctx(ctx, x):
    ctx.x, ctx.y = x.clone(), x.exp()
    return ctx.y.clone()


MORE = {
    "input and output": (exponential(lambda x, y: x, lambda x, y: y), 2),
    "three of them": (
        exponential(lambda x, y: x, lambda x, y: y.sin(), lambda x, y: y),
        3,
    ),
    "on ctx": (function(on_ctx, lambda ctx, g: g * ctx.y), 2),
}


@each(MORE)
def test_more_than_plain_autograd_keeps_is_noted(made):
    target, times = made
    found = outcome("BP702", target, x)
    assert found.status is HELD
    numbers = found.evidence[0].numbers
    assert numbers == {"bytes": times * NUM_BYTES, "composed_bytes": NUM_BYTES}
    assert "plain autograd keeps 156 KiB" in found.words


FINE = {
    "as much": (exponential(lambda x, y: y), "it keeps 156 KiB for backward"),
    "views count once": (
        exponential(lambda x, y: y[:], lambda x, y: y.mT, lambda x, y: y),
        "it keeps 156 KiB for backward",
    ),
    "nothing": (doubled(lambda ctx, g: 2 * g), "it keeps 0 bytes for backward"),
}


@each(FINE)
def test_no_more_is_no_note(made):
    target, words = made
    status, told = asked("BP702", target, x)
    assert status is NOT_APPLICABLE
    assert told.startswith(words)
    assert told.endswith("and computes no gradient in vain")


def test_the_reference_is_what_is_compared_with():
    keeps_all = exponential(lambda x, y: x, lambda x, y: y)
    frugal = outcome("BP702", keeps_all, x, reference=lambda x: 2 * x)
    assert frugal.evidence[0].numbers["composed_bytes"] == 0
    wasteful = outcome("BP702", keeps_all, x, reference=lambda x: x.sin().exp() * x)
    assert wasteful.status is NOT_APPLICABLE


def product(backward):
    return saving(lambda x, w: x @ w, backward)


def thrifty(ctx, g):
    x, w = ctx.saved_tensors
    return (
        g @ w.mT if ctx.needs_input_grad[0] else None,
        x.mT @ g if ctx.needs_input_grad[1] else None,
    )


def keeps(ctx, x, w):
    ctx.save_for_backward(x, w)
    return x @ w


def test_a_gradient_that_nobody_needs_is_noted():
    found = outcome("BP702", product(lambda g, x, w: (g @ w.mT, x.mT @ g)), x, w)
    noted = [e.numbers["input"] for e in found.evidence]
    assert noted == ["inputs[1]", "inputs[0]"]
    assert found.evidence[0].remedy == "Ask `ctx.needs_input_grad[1]` before the work."
    assert asked("BP702", function(keeps, thrifty), x, w)[0] is NOT_APPLICABLE


def test_a_small_one_is_not_worth_a_word():
    every = product(lambda g, x, w: (g @ w.mT, x.mT @ g))
    assert asked("BP702", every, normal(3, 4), normal(4, 5))[0] is NOT_APPLICABLE


def test_it_never_decides_the_verdict():
    target, _ = MORE["three of them"]
    report = backproof.check(target, x, laws={"BP101", "BP702"})
    assert report.verdict == "pass"
    assert [f.severity for f in report.findings] == [Severity.NOTE]


def test_a_plain_callable_has_no_function_to_look_into():
    status, words = asked("BP702", torch.exp, x)
    assert status is NOT_APPLICABLE
    assert words == "no Function is known behind the subject"
