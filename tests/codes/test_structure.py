"""The wrong examples of BP5xx show their fault, and the right ones do not."""

import pytest
import torch


def gradients(module, *, allow_unused=False):
    arguments = module.inputs()
    y = module.op(*arguments)
    return torch.autograd.grad(y.sum(), arguments, allow_unused=allow_unused)


def test_bp501(wrong, right):
    assert gradients(wrong, allow_unused=True)[1] is None
    x, _ = right.inputs()
    assert torch.equal(gradients(right)[1], x)


def test_bp502(wrong, right):
    with pytest.raises(RuntimeError, match="invalid gradient at index 1"):
        gradients(wrong)
    x, _ = right.inputs()
    assert torch.allclose(gradients(right)[1], x.sum(1, keepdim=True))


def test_bp503(wrong, right):
    def through_a_transpose(module):
        (x,) = module.inputs()
        u = torch.arange(12, dtype=x.dtype).reshape(4, 3)
        return torch.autograd.grad(module.op(x).T, x, u)[0], 2 * x * u.T

    assert not torch.allclose(*through_a_transpose(wrong))
    assert torch.allclose(*through_a_transpose(right))
    u = torch.arange(12, dtype=torch.double).reshape(3, 4)
    (x,) = wrong.inputs()
    plain = torch.autograd.grad(wrong.op(x), x, u)[0]
    assert torch.allclose(plain, 2 * x * u)


def test_bp504(wrong, right):
    def with_x_frozen(module):
        x, w = module.inputs()
        y = module.op(x.detach(), w)
        return torch.autograd.grad(y.sum(), w, allow_unused=True)[0]

    assert with_x_frozen(wrong) is None
    assert torch.equal(with_x_frozen(right), right.inputs()[0])
    assert torch.equal(gradients(wrong)[1], wrong.inputs()[0])


def test_bp505(wrong, right):
    def error(module, size):
        x = torch.ones(size, dtype=torch.double, requires_grad=True)
        return (torch.autograd.grad(module.op(x).sum(), x)[0] - 2 * x).abs().sum()

    assert [error(wrong, n).item() for n in (0, 1, 4, 5)] == [0, 2, 0, 2]
    assert [error(right, n).item() for n in (0, 1, 4, 5)] == [0, 0, 0, 0]


def test_bp506(wrong, right):
    def gradient_of_the_mean(module):
        (x,) = module.inputs()
        return torch.autograd.grad(module.op(x)[1], x)[0]

    zero = torch.zeros(4, dtype=torch.double)
    assert torch.equal(gradient_of_the_mean(wrong), zero)
    with pytest.raises(RuntimeError, match="does not require grad"):
        gradient_of_the_mean(right)


def test_bp507(wrong, right):
    def gradients(module):
        x, w = module.inputs()
        with torch.autocast("cpu", torch.bfloat16):
            y = module.op(x, w)
        return torch.autograd.grad(y.sum(), (x, w))

    with pytest.raises(RuntimeError, match="same dtype"):
        gradients(wrong)
    x, w = right.inputs()
    assert torch.allclose(gradients(right)[0], w.sum(0).expand_as(x), rtol=0.02)


def test_bp508(wrong, right):
    (x,) = right.inputs()
    for module in (wrong, right):
        assert torch.allclose(module.op(x), x.logsumexp(0))
    huge = x.detach() + 1000
    assert wrong.op(huge).isinf()
    assert torch.allclose(right.op(huge), huge.logsumexp(0))
