"""In eager mode a class behaves as it does on torch's base, to the last bit."""

import gc
import pickle
import weakref

import pytest
import torch

import backproof
from tests.definition.parity import options, outputs, recording  # noqa: F401
from tests.definition.parity.scenario import SCENARIOS, cube, leaf, product

pytestmark = pytest.mark.filterwarnings("ignore:Anomaly Detection")


def outcome(run, base):
    try:
        return plain(run(base))
    except (RuntimeError, TypeError, ValueError) as error:
        return type(error), str(error)


def plain(value):
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.detach().tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


@pytest.mark.parametrize("run", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_it_is_as_with_torchs_base(run):
    expected = outcome(run, torch.autograd.Function)
    assert outcome(run, backproof.Function) == expected


# ---------------------------------------------------------------------- its own terms


def test_a_method_that_is_assigned_later_is_used():
    op = cube(backproof.Function)
    old = op.apply
    op.backward = staticmethod(lambda ctx, g: 7 * g)
    for call, wanted in ((op.apply, 7.0), (old, 3.0)):
        x = torch.ones(2, requires_grad=True)
        call(x).sum().backward()
        assert x.grad.tolist() == [wanted] * 2
    assert torch.func.grad(lambda x: op.apply(x).sum())(torch.ones(2)).tolist() == [
        7,
        7,
    ]


def test_a_subclass_sees_what_its_base_is_given_later():
    base = cube(backproof.Function)
    below = type(base)("Below", (base,), {})
    base.backward = staticmethod(lambda ctx, g: 7 * g)
    x = torch.ones(2, requires_grad=True)
    below.apply(x).sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_methods_may_be_class_methods():
    class Scaled(backproof.Function):
        scale = 3.0

        @classmethod
        def forward(cls, ctx, x):
            return x * cls.scale

        @classmethod
        def backward(cls, ctx, g):
            return g * cls.scale

    class Other(Scaled):
        scale = 5.0

    for op, wanted in ((Scaled, 3.0), (Other, 5.0)):
        x = torch.ones(2, requires_grad=True)
        op.apply(x).sum().backward()
        assert x.grad.tolist() == [wanted] * 2


def test_it_has_no_instances():
    with pytest.raises(TypeError, match=r"Cube has no instances: call Cube\.apply"):
        cube(backproof.Function)()


def test_apply_names_the_class_and_takes_forwards_arguments():
    import inspect

    apply = product(backproof.Function).apply
    assert apply.__qualname__.endswith("Product.apply")
    assert str(inspect.signature(apply)) == "(x, w)"
    assert apply.__module__ == "tests.definition.parity.scenario"


class Pickled(backproof.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.mark.parametrize("it", [Pickled, Pickled.apply], ids=["class", "apply"])
def test_it_is_pickled_by_name(it):
    assert pickle.loads(pickle.dumps(it)) is it


# ----------------------------------------------------------------------------- memory

BASES = {"torch": torch.autograd.Function, "backproof": backproof.Function}
each_base = pytest.mark.parametrize("base", BASES.values(), ids=BASES.keys())


def saving(base, keep):
    class Saving(base):
        @staticmethod
        def forward(ctx, x):
            keep(ctx, x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return Saving.apply


KEEPS = {
    "nothing": lambda ctx, x: None,
    "an intermediate": lambda ctx, x: ctx.save_for_backward(x.exp()),
    "an intermediate on ctx": lambda ctx, x: setattr(ctx, "kept", [x.exp()]),
    "a number": lambda ctx, x: setattr(ctx, "kept", float(x.sum())),
}


@pytest.fixture
def without_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@each_base
@pytest.mark.parametrize("keep", KEEPS.values(), ids=KEEPS.keys())
def test_an_input_that_is_not_saved_is_freed(base, keep, without_gc):
    x = leaf()
    between = x * 1
    seen = weakref.ref(between)
    y = saving(base, keep)(between)
    del between
    assert seen() is None
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@each_base
@pytest.mark.parametrize("order", [1, 2], ids=["first", "second"])
def test_nothing_is_left_after_backward(base, order, without_gc):
    x = leaf()
    between = x * 1
    y = cube(base).apply(between)
    seen = [weakref.ref(tensor) for tensor in (between, y)]
    node = y.grad_fn
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=order == 2)
    if order == 2:
        torch.autograd.grad(first.sum(), x)
    del between, y, first
    if order == 2:  # its graph holds the input
        node = None
    assert [ref() for ref in seen] == [None, None]
    assert node is None or node.name() == "CubeBackward"


@each_base
def test_a_call_makes_no_cycle(base, without_gc):
    x = leaf()
    y = product(base).apply(x, x.exp())
    seen = [weakref.ref(y), weakref.ref(y.grad_fn)]
    del y
    assert [ref() for ref in seen] == [None, None]


def test_lists_are_freed_too(without_gc):
    class Total(backproof.Function):
        @staticmethod
        def forward(ctx, parts):
            return sum(parts)

        @staticmethod
        def backward(ctx, g):
            return ([g, g],)

    x = leaf()
    parts = [x * 1, x * 2]
    seen = [weakref.ref(part) for part in parts]
    y = Total.apply(parts)
    del parts
    assert [ref() for ref in seen] == [None, None]
    y.sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
def test_transforms_leave_nothing_behind(without_gc):
    x = leaf().detach()
    op = product(backproof.Function).apply
    torch.func.hessian(lambda x: op(x, x.exp()).sum())(x)
    before = tensors_alive()
    for _ in range(5):
        torch.vmap(torch.func.grad(lambda x: op(x, x.exp()).sum()))(x)
    assert tensors_alive() == before


def tensors_alive():
    gc.collect()
    return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())
