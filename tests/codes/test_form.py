"""The wrong examples of BP9xx show their fault, and the right ones do not."""

import warnings

import pytest
import torch
from torch import func
from torch.utils.checkpoint import checkpoint


def gradients(module, *, allow_unused=False):
    arguments = module.inputs()
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    y = module.op(*arguments)
    y = y[0] if isinstance(y, tuple) else y
    return torch.autograd.grad(y.sum(), tensors, allow_unused=allow_unused)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_bp901(wrong, right):
    with pytest.raises(RuntimeError, match="Legacy autograd function"):
        gradients(wrong)
    assert gradients(right)[0].tolist() == [3.0] * 4


def test_bp902(wrong, right):
    assert gradients(wrong)[0].tolist() == [0.0] * 4
    assert gradients(right)[0].tolist() == [1.0] * 4


def test_bp903(wrong, right):
    assert gradients(wrong)[0].tolist() == [1.0] * 4
    assert gradients(right)[0].tolist() == [3.0] * 4


def test_bp904(wrong, right):
    with pytest.raises(TypeError, match="positional arguments"):
        gradients(wrong)
    assert torch.equal(gradients(right)[0], right.inputs()[0].cos())


def test_bp905(wrong, right):
    wrong.op(*wrong.inputs()).sum().backward()
    assert wrong.Weigh.weight.grad is None
    right.op(*right.inputs()).sum().backward()
    assert torch.equal(right.op.weight.grad, right.inputs()[0])


def test_bp906(wrong, right):
    with pytest.warns(DeprecationWarning, match="saved_variables"):
        gradients(wrong)
    gradients(right)  # warnings are errors


def test_bp911(wrong, right):
    def saved(module):
        count = []
        hooks = torch.autograd.graph.saved_tensors_hooks
        with hooks(count.append, lambda t: t):
            module.op(*module.inputs())
        return len(count)

    assert saved(wrong) == 1
    assert saved(right) == 0


def test_bp912(wrong, right):
    with pytest.raises(AttributeError, match="factor"):
        gradients(wrong)
    assert gradients(right)[0].tolist() == [1.0] * 4


def test_bp913(wrong, right):
    x, y = right.inputs()
    assert torch.allclose(gradients(right)[0], 1 / y)
    assert torch.allclose(gradients(wrong)[0], 1 / x)


def test_bp914(wrong, right):
    def recomputed(module):
        x, w = module.inputs()
        y = checkpoint(module.op, x, w, use_reentrant=False)
        return torch.autograd.grad(y.sum(), (x, w))

    def unpacked(module):
        count = []
        hooks = torch.autograd.graph.saved_tensors_hooks
        with hooks(lambda t: t, lambda t: (count.append(t), t)[1]):
            gradients(module)
        return len(count)

    with pytest.raises(RuntimeError, match="already unpacked once"):
        recomputed(wrong)
    recomputed(right)
    assert (unpacked(wrong), unpacked(right)) == (4, 2)


def test_bp915(wrong, right):
    with pytest.raises(IndexError):
        gradients(wrong)
    assert torch.equal(gradients(right)[0], right.inputs()[1])


def test_bp916(wrong, right):
    with pytest.raises(ValueError, match="expected 2, got 1"):
        gradients(wrong)
    assert torch.equal(gradients(right)[0], right.inputs()[1])


def test_bp917(wrong, right):
    with pytest.raises(RuntimeError, match="not returned as output"):
        gradients(wrong)
    assert gradients(right)[0].tolist() == [2.0] * 4


def test_bp921(wrong, right):
    def all_written(module):
        torch.use_deterministic_algorithms(mode=True)  # fills new memory with nan
        try:
            return gradients(module)[0].isfinite().all()
        finally:
            torch.use_deterministic_algorithms(mode=False)

    assert not all_written(wrong)
    assert all_written(right)


def test_bp922(wrong, right):
    assert gradients(wrong, allow_unused=True)[1] is None
    x, _ = right.inputs()
    assert torch.allclose(gradients(right)[1], x.sum(0).expand(2, 4))


def test_bp931(wrong, right):
    def transformed(module):
        (x,) = module.inputs()
        gradient = func.grad(lambda x: module.op(x).sum())(x.detach())
        return gradient, func.vmap(module.op)(x.detach())

    with pytest.raises(RuntimeError, match="setup_context"):
        transformed(wrong)
    x = right.inputs()[0].detach()
    assert torch.equal(transformed(right)[0], 2 * x)
    assert torch.equal(transformed(right)[1], x * x)


def test_bp932(wrong, right):
    with pytest.raises(AttributeError, match="_fwd_used_autocast"):
        gradients(wrong)
    gradients(right)


def test_bp933(wrong, right):
    gradients(wrong)
    x = right.inputs()[0].detach()
    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and"):
        func.vmap(wrong.op)(x)
    assert torch.equal(func.vmap(right.op)(x), x * x)


def test_bp934(wrong, right):
    with pytest.raises(TypeError, match="missing a required argument"):
        gradients(wrong)
    gradients(right)


def test_bp941(wrong, right):
    assert gradients(wrong)[0].tolist() == gradients(right)[0].tolist() == [2.0] * 4


def test_bp942(wrong, right):
    assert torch.equal(gradients(wrong)[0], gradients(right)[0])
    assert not wrong.op(*wrong.inputs())[1].requires_grad


def test_bp943(wrong, right):
    assert torch.equal(gradients(wrong)[1], gradients(right)[1])


def test_bp944(wrong, right):
    with pytest.raises(RuntimeError, match="view"):
        wrong.op(*wrong.inputs()).add_(1)
    right.op(*right.inputs()).add_(1)
    with warnings.catch_warnings():
        assert torch.equal(gradients(wrong)[0], gradients(right)[0])
