"""Each mistake is refused, at its line, and torch itself fails on the class."""

import inspect
import pickle
from pathlib import Path

import pytest
import torch
from torch.autograd import forward_ad

import backproof
from backproof import MalformedFunction
from backproof.definition.form import refuse_malformed
from tests.definition.form.malformed import MALFORMED

BASE = backproof.Function
EXAMPLES = MALFORMED.values()
NAMES = list(MALFORMED)


def refused(build):
    with pytest.raises(MalformedFunction) as caught:
        build(BASE)
    return caught.value


@pytest.mark.parametrize("example", EXAMPLES, ids=NAMES)
def test_it_is_refused_at_a_line_of_the_class(example):
    error = refused(example.build)
    assert error.rule == example.rule
    assert Path(error.file) == Path(inspect.getfile(example.build))
    lines, first = inspect.getsourcelines(example.build)
    assert first <= error.line < first + len(lines)
    said = str(error).split("`")[1]
    assert said.split("(")[0] in lines[error.line - first]


def backward(apply, arguments):
    outputs = apply(*arguments)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    sum(one.sum() for one in outputs).backward()
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    if any(one.grad is None for one in tensors):
        raise RuntimeError("no gradient")


def vmap(apply, arguments):
    dims = tuple(0 if isinstance(one, torch.Tensor) else None for one in arguments)
    torch.func.vmap(apply, in_dims=dims)(*arguments)


def jvp(apply, arguments):
    with forward_ad.dual_level():
        first, *rest = arguments
        apply(forward_ad.make_dual(first.detach(), torch.ones_like(first)), *rest)


USES = {"backward": backward, "vmap": vmap, "jvp": jvp}
FAILING = {name: one for name, one in MALFORMED.items() if one.how is not None}


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("example", FAILING.values(), ids=FAILING.keys())
def test_torch_fails_on_it(example):
    arguments = tuple(one() if callable(one) else one for one in example.arguments)
    with pytest.raises((RuntimeError, TypeError, AttributeError, NotImplementedError)):
        USES[example.how](example.build(torch.autograd.Function).apply, arguments)


BY_SIGNATURE = {
    *("backward_without_ctx", "not_static", "needs_an_instance", "ctx_beside_setup"),
    *("forward_without_parameters", "setup_without_output", "backward_and_vjp"),
    *("two_vmaps", "vmap_without_info", "jvp_of_fewer", "misspelt_backward"),
    *("unknown_policy", "switch_that_is_no_bool"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_without_text_only_signatures_are_judged(name):
    cls = MALFORMED[name].build(torch.autograd.Function)
    without_text(cls)
    if name not in BY_SIGNATURE:
        refuse_malformed(cls)
        return
    with pytest.raises(MalformedFunction) as caught:
        refuse_malformed(cls)
    assert caught.value.rule == MALFORMED[name].rule
    assert (caught.value.file, caught.value.line) == (None, None)
    assert "malformed.py" not in str(caught.value)


def without_text(cls):
    """Give each method a file that does not exist."""
    for value in list(vars(cls).values()):
        function = getattr(value, "__func__", value)
        function = inspect.unwrap(function) if callable(function) else function
        if hasattr(function, "__code__"):
            code = function.__code__.replace(co_filename="<nowhere>")
            function.__code__ = code


def test_the_exception_is_a_type_error_and_travels():
    error = refused(MALFORMED["too_few"].build)
    assert isinstance(error, TypeError)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.file, copy.line, copy.rule) == (
        str(error),
        error.file,
        error.line,
        error.rule,
    )


def test_an_inherited_mistake_is_shown_where_it_stands():
    class Forward(BASE):
        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

    def whole(base):
        class Whole(Forward):
            @staticmethod
            def backward(ctx, grad_output):
                return -grad_output

    error = refused(whole)
    assert "forward takes x, factor" in str(error)
    assert error.line == inspect.getsourcelines(whole)[1] + 4
