"""torch's gradcheck, by its own signature, with another referee."""

import inspect

import pytest
import torch
from torch.autograd.gradcheck import GradcheckError

import backproof
from tests.battery.subjects import normal


class Off(torch.autograd.Function):
    """A sine whose gradient is 0.1 % too large in one entry of twelve."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        gradient = g * torch.cos(x)
        gradient[4] *= 1.001
        return gradient


x = normal(12)


def test_the_signature_is_torchs():
    ours = inspect.signature(backproof.gradcheck).parameters
    theirs = inspect.signature(torch.autograd.gradcheck).parameters
    assert list(ours) == list(theirs)
    for name, parameter in theirs.items():
        assert ours[name].kind == parameter.kind, name
        assert ours[name].default == parameter.default, name


@pytest.mark.parametrize(
    "inputs", [x, (x,), [x]], ids=["a tensor", "a tuple", "a list"]
)
def test_true_for_a_pass(inputs):
    assert backproof.gradcheck(torch.sin, inputs) is True


def test_false_where_an_exception_is_not_wanted():
    assert backproof.gradcheck(Off.apply, (x,), raise_exception=False) is False


def test_what_it_raises_is_ours_and_torchs():
    for expected in (
        backproof.WrongGradient,
        GradcheckError,
        RuntimeError,
        AssertionError,
    ):
        with pytest.raises(expected, match="BP101"):
            backproof.gradcheck(Off.apply, (x,))


def test_torchs_own_does_not_see_it():
    assert torch.autograd.gradcheck(Off.apply, (x,))
    assert torch.autograd.gradcheck(Off.apply, (x,), fast_mode=True)


def test_a_crash_is_no_pass():
    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            raise ArithmeticError("no gradient today")

    assert backproof.gradcheck(Raises.apply, x, raise_exception=False) is False
    with pytest.raises(backproof.WrongGradient, match="no gradient today"):
        backproof.gradcheck(Raises.apply, x)


def test_a_surrogate_or_an_open_question_is_no_pass():
    class Rounded(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.round(x)

        @staticmethod
        def backward(ctx, g):
            return g.clone()

    assert not backproof.gradcheck(Rounded.apply, x, raise_exception=False)
    beyond = -x.detach().abs()
    assert not backproof.gradcheck(
        torch.log, beyond.requires_grad_(), raise_exception=False
    )


def test_steps_and_tolerances_are_accepted():
    assert backproof.gradcheck(
        torch.sin,
        (normal(12, dtype=torch.bfloat16),),
        eps=1e-3,
        atol=1.0,
        rtol=1.0,
        nondet_tol=1e-5,
        check_undefined_grad=False,
        check_grad_dtypes=True,
        fast_mode=True,
        masked=False,
    )


@pytest.mark.parametrize(
    "option", ["check_batched_grad", "check_batched_forward_grad", "check_forward_ad"]
)
def test_what_is_not_covered_is_said(option):
    with pytest.raises(backproof.BadInput, match=option):
        backproof.gradcheck(torch.sin, (x,), **{option: True})


def test_nothing_to_check_is_said():
    with pytest.raises(backproof.BadInput, match="check_backward_ad"):
        backproof.gradcheck(torch.sin, (x,), check_backward_ad=False)


def test_bad_input_is_bad_input_also_without_exceptions():
    with pytest.raises(backproof.BadInput, match="needs a gradient"):
        backproof.gradcheck(torch.sin, (x.detach(),), raise_exception=False)
