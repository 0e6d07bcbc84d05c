"""Every right example runs forward and backward, and its gradient is right."""

import pytest
import torch
import torch.distributed as dist
from torch.autograd.gradcheck import gradcheck

from backproof.codes import all_codes


@pytest.fixture
def _one_rank(tmp_path):
    dist.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1
    )
    yield
    dist.destroy_process_group()


def in_double(argument):
    if isinstance(argument, torch.Tensor) and argument.is_floating_point():
        return argument.detach().double().requires_grad_(argument.requires_grad)
    return argument


@pytest.mark.usefixtures("_one_rank")
@pytest.mark.parametrize("code", all_codes())
def test_right_example(code, example):
    module = example(code, "right")
    arguments = tuple(in_double(a) for a in module.inputs())

    def op(*arguments):
        torch.manual_seed(0)
        return module.op(*arguments)

    with torch.random.fork_rng():
        if hasattr(module, "EXPECT"):
            y = op(*arguments)
            u = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view_as(y)
            claim = torch.autograd.grad(y, arguments, u)
            assert all(map(torch.equal, claim, module.EXPECT(u, *arguments)))
        elif code == "BP108":  # at a kink a difference quotient says nothing
            y = op(*arguments)
            assert all(map(torch.isfinite, torch.autograd.grad(y.sum(), arguments)[0]))
        else:
            many = sum(a.numel() for a in arguments if torch.is_tensor(a)) > 1000
            assert gradcheck(op, arguments, fast_mode=many)
