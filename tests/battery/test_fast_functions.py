"""A function faster than a look's steps is not called wrong."""

import pytest
import torch

import backproof


@pytest.mark.parametrize("seed", [2, 8, 22, 30])
def test_one_element_of_a_fast_sine(seed):
    """Long steps alias, and those of a coarser type alias too."""
    random = torch.Generator().manual_seed(seed)
    x = torch.rand(1, dtype=torch.float64, generator=random).requires_grad_()
    report = backproof.check(lambda x: torch.sin(1e5 * x), x, laws=["BP101"])
    assert report.verdict in ("pass", "inconclusive"), report


class Faster(torch.autograd.Function):
    """The same with a fault that is as fast."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sin(1e5 * x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 1.1 * g * 1e5 * torch.cos(1e5 * x)


def test_its_fault_is_never_passed():
    verdicts = set()
    for seed in range(12):
        random = torch.Generator().manual_seed(seed)
        x = torch.rand(8, dtype=torch.float64, generator=random).requires_grad_()
        verdicts.add(backproof.check(Faster.apply, x, laws=["BP101"]).verdict)
    assert "pass" not in verdicts
    assert "wrong" in verdicts
