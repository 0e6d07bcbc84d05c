"""What torch runs is let through, however odd it looks."""

import linecache

import pytest
import torch

import backproof
from backproof.definition.form import refuse_malformed
from tests.definition.form.healthy import HEALTHY

BASE = backproof.Function


@pytest.mark.parametrize("example", HEALTHY.values(), ids=HEALTHY.keys())
def test_it_is_let_through(example):
    example.build(BASE)


@pytest.mark.parametrize("example", HEALTHY.values(), ids=HEALTHY.keys())
def test_torch_runs_it(example):
    arguments = [one() if callable(one) else one for one in example.arguments]
    result = example.build(torch.autograd.Function).apply(*arguments)
    if example.gradient:
        (result[0] if isinstance(result, tuple) else result).sum().backward()
        tensors = (one for one in arguments if isinstance(one, torch.Tensor))
        assert all(one.grad is not None for one in tensors)


def test_bases_of_others_are_let_through():
    class Forward(BASE):
        @staticmethod
        def forward(ctx, x, n):
            return x

    class Backward(BASE):
        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    class Nothing(BASE):
        pass

    class Shared(BASE):
        @staticmethod
        def forward(cls, ctx, x, n):  # noqa: PLW0211
            return cls.rule(x, n)

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output, None


def test_defaults_of_the_library_are_not_the_authors():
    class Complete(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    refuse_malformed(Complete)  # torch's base defines both backward and vjp


def test_what_is_set_on_ctx_is_no_matter_of_form():
    class Scale(BASE):
        @staticmethod
        def forward(context, x):
            return x * context.factor

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output


SCALE = """
class Scale(BASE):
    @staticmethod
    def forward(ctx, x, factor):
        return x * factor
    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * 2
"""


def defined(text, *, shown):
    """Run `text`, of which `linecache` has another version."""
    file = "<a cell>"
    linecache.cache[file] = (len(shown), None, shown.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), {"BASE": BASE})


def test_a_text_that_was_edited_since_is_not_judged():
    with pytest.raises(backproof.MalformedFunction):
        defined(SCALE, shown=SCALE)
    defined(SCALE, shown=f"\n{SCALE}")
