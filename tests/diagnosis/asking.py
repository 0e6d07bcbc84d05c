"""One wrong gradient, and what diagnosis says of it."""

import torch

from backproof import check


def made(forward, backward):
    """A Function of any number of tensors; backward gets (g, *inputs, output)."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            output = forward(*inputs)
            ctx.save_for_backward(*inputs, output)
            return output

        @staticmethod
        def backward(ctx, g):
            found = backward(g, *ctx.saved_tensors)
            return found if isinstance(found, tuple) else (found,)

    return Made


def named(forward, backward):
    """The same for one input that is called x."""

    class Named(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = forward(x)
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return backward(g, x, y)

    return Named


def numbers(function, *inputs, seed=0):
    """What the first wrong input's evidence says."""
    report = check(function, *inputs, laws=["BP101"], seed=seed)
    (subject,) = report.subjects
    (outcome,) = subject.outcomes
    assert report.verdict.value == "wrong", outcome.words
    return outcome.evidence[0].numbers


def words(function, *inputs):
    """The finding's words."""
    report = check(function, *inputs, laws=["BP101"])
    found = report.subjects[0].findings[0]
    return f"{found.title}\n{found.words}\n{found.remedy}"


def normal(*shape, seed=0, dtype=torch.float64, grad=True):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)
    return drawn.requires_grad_(grad)
