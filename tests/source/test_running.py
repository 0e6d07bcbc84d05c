"""Which lines of a backward ran."""

import sys

import pytest
import torch
from torch.autograd.function import once_differentiable

from backproof.source import gradient_place, lines_run, method_of


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        return x * by

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        gx = g * ctx.by
        if ctx.by > 1:
            gx = gx + 0
        return (
            gx,
            None,
        )


FIRST = Scaled.backward.__wrapped__.__code__.co_firstlineno + 3


def gradient(by, times=1):
    x = torch.ones(2, requires_grad=True)
    y = Scaled.apply(x, by)
    for _ in range(times):
        torch.autograd.grad(y, x, torch.ones(2), retain_graph=True)


def relative(lines):
    return [line - FIRST for line in lines]


def test_lines_of_a_backward_that_autograd_calls():
    lines = relative(lines_run(Scaled.backward, lambda: gradient(3)))
    assert lines[:3] == [0, 1, 2]
    assert 3 in lines
    assert 2 not in relative(lines_run(Scaled.backward, lambda: gradient(0)))


def test_two_runs():
    lines = relative(lines_run(Scaled.backward, lambda: gradient(0, times=2)))
    assert lines.count(0) == 2


def test_the_place_of_a_gradient_that_ran():
    backward = method_of(Scaled.backward)
    for by, text in ((3, "gx = gx + 0"), (0, "gx = g * ctx.by")):
        lines = lines_run(Scaled.backward, lambda by=by: gradient(by))
        assert gradient_place(backward, 0, lines).text == text


def test_a_staticmethod_from_the_class_body():
    assert lines_run(vars(Scaled)["backward"], lambda: gradient(0))


def test_a_lambda():
    double = lambda g: g * 2  # noqa: E731
    assert lines_run(double, lambda: double(1)) == [double.__code__.co_firstlineno]


def test_what_does_not_run_or_is_not_python():
    called = []
    assert lines_run(Scaled.backward, lambda: called.append(1)) == []
    assert lines_run(torch.sigmoid, lambda: called.append(2)) == []
    assert called == [1, 2]


@pytest.fixture
def tracing():
    """Another tool's trace function, and which files it saw."""
    seen = []

    def trace(frame, event, argument):
        seen.append(frame.f_code.co_name)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    yield trace, seen
    sys.settrace(before)


def test_a_debugger_is_not_disturbed(tracing):
    trace, seen = tracing

    def traced():
        pass

    lines = lines_run(traced, traced)
    after = sys.gettrace()
    assert (lines, after) == ([], trace)
    assert "traced" in seen


@pytest.mark.skipif(sys.gettrace() is not None, reason="something traces the tests")
def test_tracing_ends_also_after_an_exception():
    def fails():
        raise KeyError("no")

    with pytest.raises(KeyError):
        lines_run(fails, fails)
    assert sys.gettrace() is None


@pytest.mark.skipif(sys.gettrace() is not None, reason="something traces the tests")
def test_a_debugger_that_the_call_starts_stays():
    def debugger(frame, event, argument):
        return None

    try:
        lines_run(gradient, lambda: sys.settrace(debugger))
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(None)
