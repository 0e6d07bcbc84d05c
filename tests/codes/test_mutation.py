"""The wrong examples of BP2xx show their fault, and the right ones do not."""

import torch


def gradient(y, x, **options):
    return torch.autograd.grad(y, x, torch.ones_like(y), **options)[0]


def test_bp201(wrong, right):
    def changes_its_input(module):
        x = module.inputs()[0].detach()
        before = x.clone()
        module.op(x)
        return not torch.equal(x, before)

    assert changes_its_input(wrong)
    assert not changes_its_input(right)


def test_bp202(wrong, right):
    def changes_its_cotangent(module):
        (x,) = module.inputs()
        u = torch.ones_like(x)
        torch.autograd.grad(module.op(x), x, u)
        return not torch.equal(u, torch.ones_like(x))

    assert changes_its_cotangent(wrong)
    assert not changes_its_cotangent(right)


def test_bp203(wrong, right):
    def after_a_change(module):
        (x,) = module.inputs()
        x = x.detach()
        base = x.clone().requires_grad_()
        moved = base * 1
        y = module.op(moved)
        with torch.no_grad():
            moved.zero_()
        try:
            return gradient(y, base)
        except RuntimeError as error:
            return str(error)

    assert torch.equal(after_a_change(wrong), torch.zeros(4, dtype=torch.double))
    assert "modified by an inplace operation" in after_a_change(right)


def test_bp204(wrong, right):
    def first_result_survives(module):
        (x,) = module.inputs()
        first = module.op(x)
        kept = first.detach().clone()
        module.op(x + 1)
        return torch.equal(first, kept)

    assert not first_result_survives(wrong)
    assert first_result_survives(right)


def test_bp205(wrong, right):
    def two_forwards(module):
        x, _ = module.inputs()
        first, second = module.op(x, 3.0), module.op(x, 5.0)
        return gradient(first, x)[0].item(), gradient(second, x)[0].item()

    assert two_forwards(wrong) == (5.0, 5.0)
    assert two_forwards(right) == (3.0, 5.0)


def test_bp206(wrong, right):
    def twice(module):
        (x,) = module.inputs()
        y = module.op(x)
        first = gradient(y, x, retain_graph=True)[0].item()
        return first, gradient(y, x, retain_graph=True)[0].item()

    assert twice(wrong) == (1.5, 1.0)
    assert twice(right) == (1.5, 1.5)


def test_bp207(wrong, right):
    def keeps_the_mask(module):
        (x,) = module.inputs()
        y = module.op(x)
        return torch.equal(gradient(y, x) != 0, y != 0)

    assert not keeps_the_mask(wrong)
    assert keeps_the_mask(right)
    torch.manual_seed(0)
    assert torch.autograd.gradcheck(seeded(right.op), right.inputs())


def seeded(op):
    def call(x):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return op(x)

    return call


def test_bp208(wrong, right):
    def gradient_of_weight(module):
        (x,) = module.inputs()
        return torch.autograd.grad(
            module.op(x).sum(), module.weight, allow_unused=True
        )[0]

    assert gradient_of_weight(wrong) is None
    assert torch.equal(gradient_of_weight(right), right.inputs()[0])


def test_bp209(wrong, right):
    def gradients(module):
        a, b = torch.arange(3.0), torch.arange(3.0)
        a.requires_grad_(), b.requires_grad_()
        y = module.op(a, b).sum()
        return torch.autograd.grad(y, (a, b), allow_unused=True)

    of_a, of_b = gradients(wrong)
    assert of_b is None
    of_a, of_b = gradients(right)
    assert torch.equal(of_a, of_b)
    assert torch.equal(of_a, torch.arange(3.0))
