"""BP103: forward mode and backward are each other's transpose."""

import pytest
import torch

from tests.battery.laws.asking import BROKEN, HELD, NOT_APPLICABLE, asked, each, outcome
from tests.battery.subjects import normal

x, y = normal(8), normal(8, seed=1)


def product(jvp, backward=lambda g, x, y: (g * y, g * x)):
    """x y, with a forward mode of one's own: `jvp(x, y, dx, dy)`."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

        @staticmethod
        def jvp(ctx, dx, dy):
            return jvp(*ctx.saved_tensors, dx, dy)

    return Product


def right(x, y, dx, dy):
    return (0 if dx is None else dx * y) + (0 if dy is None else x * dy)


FAULTS = {
    "a factor": product(lambda x, y, dx, dy: 1.001 * right(x, y, dx, dy)),
    "one input is forgotten": product(lambda x, y, dx, dy: dx * y),
    "a sign": product(lambda x, y, dx, dy: right(x, y, dx, -dy)),
    "the inputs change places": product(lambda x, y, dx, dy: dx * x + y * dy),
    "one element": product(
        lambda x, y, dx, dy: right(x, y, dx, dy) * (torch.arange(8) > 0)
    ),
    "backward instead": product(right, lambda g, x, y: (g * y, 0.9 * g * x)),
}


@each(FAULTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_it_is_broken(made, dtype):
    inputs = normal(8, dtype=dtype), normal(8, dtype=dtype, seed=1)
    status, words = asked("BP103", made, *inputs)
    assert status is BROKEN
    assert "forward mode does not agree with backward" in words.splitlines()[0]


def test_an_input_without_a_tangent_is_tried_too():
    def raises_for_none(x, y, dx, dy):
        return dx * y + (x * dy if float(dx.abs().sum()) else 2 * x * dy)

    found = outcome("BP103", product(raises_for_none), x, y)
    told = {e.words.splitlines()[1] for e in found.evidence if e.holds is False}
    assert told == {"for a tangent of `y` alone"}


RIGHT = {
    "by hand": product(right),
    "torch's own": torch.mul,
    "of several outputs": lambda x, y: (x * y, x.sin(), y.detach()),
    "one input alone counts": lambda x, y: x.exp() + y.detach(),
    "a gradient that cancels": lambda x, y: torch.softmax(x, 0).sum() + y.sum(),
}


@each(RIGHT)
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str
)
def test_it_holds(made, dtype):
    inputs = normal(8, dtype=dtype), normal(8, dtype=dtype, seed=1)
    status, words = asked("BP103", made, *inputs)
    assert status is HELD, words


def test_complex_numbers_under_the_real_inner_product():
    z = torch.randn(5, dtype=torch.complex128, requires_grad=True)
    assert asked("BP103", lambda z: z * z.conj() + z.exp(), z)[0] is HELD


def test_the_numbers_are_both_sides_and_the_allowance():
    found = outcome("BP103", FAULTS["a factor"], x, y)
    for evidence in found.evidence:
        assert set(evidence.numbers) == {"forward", "backward", "allowed"}
        ratio = evidence.numbers["forward"] / evidence.numbers["backward"]
        assert ratio == pytest.approx(1.001)


class NoForwardMode(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g


def test_a_refusal_has_broken_nothing():
    status, words = asked("BP103", NoForwardMode, x)
    assert status is NOT_APPLICABLE
    assert words.startswith("forward mode is refused: ")


def test_at_a_kink_the_modes_may_choose():
    zeros = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    status, words = asked("BP103", torch.abs, zeros)
    assert status is NOT_APPLICABLE
    assert "no smooth one" in words


def test_elements_that_are_not_finite_get_no_tangent():
    a = torch.tensor([1.0, float("inf"), float("nan"), 0.5]).double().requires_grad_()
    assert asked("BP103", torch.sin, a)[0] is HELD


AT_AN_EDGE = {
    "alone": torch.sqrt,
    "added up": lambda x: x.sqrt().cumsum(0),
    "beside a smooth output": lambda x: (x.sqrt(), 2 * x),
}


@pytest.mark.parametrize("target", AT_AN_EDGE.values(), ids=AT_AN_EDGE)
def test_at_the_edge_of_a_domain_a_slope_is_infinite(target):
    edge = torch.tensor([1.0, 2.0, 0.5, 0.0]).double().requires_grad_()
    assert asked("BP103", target, edge)[0] is HELD


def test_a_fault_beside_that_edge_is_seen():
    def off(x, y, dx, dy):
        return 1.001 * right(x, y, dx, dy)

    def beside(x, y):
        return x.sqrt(), product(off).apply(x, y)

    edge = torch.tensor([1.0, 2.0, 0.0]).double().requires_grad_()
    assert asked("BP103", beside, edge, normal(3, seed=1))[0] is BROKEN
