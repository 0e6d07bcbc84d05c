"""Whether a Function communicates is found out without it getting to."""

import pytest
import torch
import torch.distributed as dist

from backproof.audit.ranks.communication import communicates
from backproof.audit.recording import recording

went_on = []  # past a collective


@pytest.fixture(autouse=True)
def _one_rank():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class InForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        total = x.clone()
        dist.all_reduce(total)
        went_on.append("forward")
        return total

    @staticmethod
    def backward(ctx, g):
        return g


class InBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        total = g.clone()
        dist.all_reduce(total)
        went_on.append("backward")
        return total


class ByAnotherName(torch.autograd.Function):
    """A functional collective is another operator of the dispatcher."""

    @staticmethod
    def forward(ctx, x):
        import torch.distributed._functional_collectives as functional

        total = functional.all_reduce(x, "sum", dist.group.WORLD)
        return functional.wait_tensor(total)

    @staticmethod
    def backward(ctx, g):
        return g


class Alone(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g


class Raises(torch.autograd.Function):
    """What is wrong with it is not for this question."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        raise ValueError("not today")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (InForward, True),
        (InBackward, True),
        (ByAnotherName, True),
        (Alone, False),
        (Raises, False),
    ],
)
def test_who_communicates(function, expected):
    with recording() as seen:
        function.apply(torch.ones(3, requires_grad=True))
    (ledger,) = seen.ledgers.values()
    went_on.clear()
    assert communicates(ledger, ledger.kept[0], seed=0) is expected
    assert went_on == []


def test_one_rank_is_no_reason_to_meet():
    with recording() as seen:
        InForward.apply(torch.ones(3, requires_grad=True)).sum().backward()
    report = seen.verify()
    assert [one.verdict.value for one in report.subjects] == ["pass"]
