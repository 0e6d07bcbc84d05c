"""The wrong examples of BP1xx show their fault, and the right ones do not."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.autograd.gradcheck import GradcheckError

# torch's own, when forward mode loads its decompositions
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")


def gradcheck(module, **options):
    try:
        return torch.autograd.gradcheck(module.op, module.inputs(), **options)
    except GradcheckError:
        return False


def gradient(op, x, cotangent):
    return torch.autograd.grad(op(x), x, cotangent)[0]


def cotangent_like(y, seed=1):
    gen = torch.Generator().manual_seed(seed)
    return torch.randn(y.shape, generator=gen, dtype=y.dtype)


def test_bp101(wrong, right):
    assert not gradcheck(wrong)
    assert gradcheck(right)


def test_bp102(wrong, right):
    def second(module):
        (x,) = module.inputs()
        (first,) = torch.autograd.grad((x * module.op(x)).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    (x,) = right.inputs()
    truth = (2 + x) * x.exp()
    assert torch.allclose(second(right), truth)
    assert torch.allclose(second(wrong), 2 * x.exp())  # x exp(x) is gone, silently
    assert gradcheck(wrong)


def test_bp103(wrong, right):
    def tangent(module):
        (x,) = module.inputs()
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones_like(x))
            return forward_ad.unpack_dual(module.op(dual)).tangent

    (x,) = right.inputs()
    assert torch.allclose(tangent(right), x.cos())
    assert torch.allclose(tangent(wrong), -x.cos())
    assert gradcheck(wrong)  # backward alone is right


def test_bp104(wrong, right):
    def is_linear(module):
        (x,) = module.inputs()
        u = cotangent_like(x)
        return torch.allclose(
            gradient(module.op, x, -2 * u), -2 * gradient(module.op, x, u)
        )

    assert not is_linear(wrong)
    assert is_linear(right)
    (x,) = wrong.inputs()
    assert torch.allclose(gradient(wrong.op, x, torch.ones_like(x)), 3 * x**2)


def test_bp106(wrong, right):
    assert not hasattr(wrong, "EXPECT")
    (x,) = right.inputs()
    u = cotangent_like(x)
    assert torch.equal(gradient(right.op, x, u), right.EXPECT(u, x)[0])


def test_bp107(wrong, right):
    def as_declared(module):
        (x,) = module.inputs()
        u = cotangent_like(x)
        return torch.equal(gradient(module.op, x, u), module.EXPECT(u, x)[0])

    assert not as_declared(wrong)
    assert as_declared(right)


def test_bp108(wrong, right):
    def at_the_tie(module):
        x, y = module.inputs()
        both = torch.autograd.grad(module.op(x, y).sum(), (x, y))
        return both[0][1].item(), both[1][1].item()

    # raising x and y together raises their maximum by one, not by two
    assert at_the_tie(wrong) == (1, 1)
    assert at_the_tie(right) == (1, 0)


def test_bp109(wrong, right):
    def is_finite(module):
        (x,) = module.inputs()
        return gradient(module.op, x, torch.ones_like(x)).isfinite().all()

    (x,) = wrong.inputs()
    assert wrong.op(x).isfinite().all()
    assert not is_finite(wrong)
    assert is_finite(right)
    assert gradcheck(right)


def test_bp110(wrong, right):
    def relative_error(module):
        (x,) = module.inputs()
        claim = gradient(module.op, x, torch.ones_like(x))
        return ((claim - x.exp()) / x.exp()).abs().max().item()

    assert 1e-9 < relative_error(wrong) < 1e-6
    assert relative_error(right) < 1e-15


def test_bp111(wrong, right):
    def forward_error(module):
        (x,) = module.inputs()
        return (module.op(x) - module.reference(x)).abs().max().item()

    assert forward_error(wrong) > 0.1
    assert gradcheck(wrong)  # its backward matches its forward
    assert forward_error(right) < 1e-12
