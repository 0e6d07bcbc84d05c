"""The wrong examples of BP4xx show their fault, and the right ones do not."""

import random

import pytest
import torch
from torch import func
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    # dynamo looks at .grad of whatever it is given
    pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning"),
]


class Wrapper(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, *arguments):
        return self.op(*arguments)


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(op):
    return torch.compile(op, backend="aot_eager", fullgraph=True)


def exported(op, *arguments, strict):
    return torch.export.export(Wrapper(op), arguments, strict=strict).module()


def test_bp401(wrong, right):
    (x,) = right.inputs()
    assert torch.equal(compiled(wrong.op)(x), torch.zeros_like(x))
    assert torch.equal(wrong.op(x), x * x)  # eager is right
    y = compiled(right.op)(x)
    assert torch.equal(y, x * x)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], 2 * x)


def test_bp402(wrong, right):
    def gradient(module):
        (x,) = module.inputs()
        step = func.grad(lambda x: module.op(x).sum())
        return compiled(step)(x.detach())

    one = torch.ones(4, dtype=torch.double)
    assert torch.equal(gradient(wrong), 0 * one)
    assert torch.equal(gradient(right), one)


def test_bp403(wrong, right):
    def error(module):
        (x,) = module.inputs()
        x = x.detach()
        return (exported(module.op, x, strict=True)(x) - module.op(x)).abs().max()

    assert error(wrong) > 1e-3
    assert error(right) == 0


def test_bp404(wrong, right):
    def answers(call, module):
        (x,) = module.inputs()
        return {call(x.detach()).abs().sum().item() for _ in range(30)}

    random.seed(0)
    torch.manual_seed(0)
    for module, seen in ((wrong, 1), (right, 2)):
        x = module.inputs()[0].detach()
        graph = exported(module.op, x, strict=False)
        assert len(answers(graph, module)) == seen
        assert len(answers(module.op, module)) == 2


def test_bp405(wrong, right):
    def gradient(module):
        (x,) = module.inputs()
        graph = exported(module.op, x, strict=False)
        return torch.autograd.grad(graph(x).sum(), x)[0]

    one = torch.ones(4, dtype=torch.double)
    assert torch.equal(gradient(wrong), one)
    assert torch.equal(gradient(right), -one)


def test_bp406(wrong, right):
    def on_new_input(module):
        x = module.inputs()[0].detach()
        return make_fx(module.op)(x)(2 * x)

    x = right.inputs()[0].detach()
    assert torch.allclose(on_new_input(wrong), 2 * x - x.trunc())
    assert torch.allclose(on_new_input(right), (2 * x).frac())
    assert not torch.allclose(on_new_input(wrong), on_new_input(right))


def test_bp407(wrong, right):
    def shapes(module):
        x = module.inputs()[0].detach()
        with FakeTensorMode() as mode:
            fake = module.op(mode.from_tensor(x))
        meta = module.op(x.to("meta"))
        return fake.shape, meta.shape, module.op(x).shape

    assert shapes(wrong) == ((3, 1), (3, 1), (3,))
    assert shapes(right) == ((3,), (3,), (3,))


def test_bp408(wrong, right):
    def gradient(module):
        (x,) = module.inputs()
        y = module.op(x).sum()
        step = torch.compile(lambda y: y.backward(), backend="aot_eager")
        with torch._dynamo.config.patch(compiled_autograd=True):
            step(y)
        return x.grad

    assert gradient(wrong).tolist() == [0, 0, 0, 0]
    assert gradient(right).tolist() == [0, 1, 2, 3]


def test_bp409(wrong, right):
    def values(module):
        x = module.inputs()[0].detach()
        pure = func.functionalize(module.op, remove="mutations_and_views")
        return module.op(x), pure(x)

    assert not torch.allclose(*values(wrong))
    assert torch.allclose(*values(right))
