"""Ask one law about one call."""

import pytest
import torch

import backproof
from backproof.records import Status


def outcome(code, target, *arguments, **options):
    """That of one law, asked alone."""
    options.setdefault("laws", {code})
    report = backproof.check(target, *arguments, **options)
    return report.subjects[0].outcome(code)


def asked(code, target, *arguments, **options):
    """The outcome's status and its words."""
    found = outcome(code, target, *arguments, **options)
    return found.status, found.words


HELD, BROKEN, NOT_APPLICABLE = Status.HELD, Status.BROKEN, Status.NOT_APPLICABLE


def function(forward, backward):
    """A Function of `forward(ctx, *inputs)` and `backward(ctx, *cotangents)`."""
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Made", (torch.autograd.Function,), members)


def each(table):
    """A test for every entry of a table, by its name."""
    return pytest.mark.parametrize("made", table.values(), ids=table)


def saving(value, backward):
    """`value(*inputs)`, whose `backward(*cotangents, *inputs)` is handed what was saved."""

    def forward(ctx, *inputs):
        ctx.save_for_backward(*inputs)
        return value(*inputs)

    return function(forward, lambda ctx, *u: backward(*u, *ctx.saved_tensors))


def doubled(backward):
    """2 x, with a backward of one's own."""
    return function(lambda ctx, x: 2 * x, backward)


def staircase(backward):
    """Rounded to whole numbers, with a backward of one's own."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.round(x)

    return function(forward, backward)
