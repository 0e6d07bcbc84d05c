"""What a definition promises to compilers and kernels is held, or refused by name."""

import numpy as np
import pytest
import torch

import backproof


class Applied(backproof.Function):
    @staticmethod
    def forward(ctx, x, function):
        ctx.save_for_backward(x)
        return function(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.cos(), None


class Model(torch.nn.Module):
    def forward(self, x):
        return Applied.apply(x, torch.sin)


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "nonstrict"])
def test_a_callable_argument_is_not_exported(strict):
    with pytest.raises(Exception, match="cannot be part of an exported or traced"):
        torch.export.export(Model(), (torch.ones(3),), strict=strict)


def test_a_fake_rule_of_another_shape_is_refused():
    double = backproof.external(
        lambda x: np.concatenate([x, x]),
        lambda g, x: g[:3] + g[3:],
        fake=torch.empty_like,
    )
    with pytest.raises(backproof.BadInput, match=r"shape \(6,\), and `fake` promises"):
        double(torch.ones(3))


def test_a_fake_rule_of_another_type_is_refused():
    same = backproof.external(
        np.abs, lambda g, x: g, fake=lambda x: torch.empty_like(x, dtype=torch.float64)
    )
    with pytest.raises(backproof.BadInput, match="float32 of shape"):
        same(torch.ones(3))


class ReadsMemory(backproof.Function):
    contiguous = True

    @staticmethod
    def forward(ctx, x):
        assert not x.is_conj()
        assert not x.is_neg()
        return x * 2

    @staticmethod
    def backward(ctx, g):
        assert not g.is_conj()
        return g * 2


def test_contiguous_carries_out_what_is_lazy():
    x = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    ReadsMemory.apply(x.conj()).backward(
        torch.ones(2, dtype=torch.cfloat).mul(1j).conj()
    )
    assert ReadsMemory.apply(x.conj().imag).tolist() == [-4.0, 2.0]
