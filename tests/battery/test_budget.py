"""What a check costs in calls, whatever the size."""

import pytest
import torch
from torch.nn import functional

import backproof
from tests.battery.referee import REFEREE
from tests.battery.subjects import Counted, normal

FINE = (torch.float64, torch.float32)
SIZES = (1, 10, 1_000, 100_000)

each_type = pytest.mark.parametrize("dtype", FINE, ids=str)


def cost(function, *inputs, **options):
    """(forwards, backwards) as counted from outside, and the report."""
    counted = Counted(function)
    report = backproof.check(counted.definition, *inputs, **options)
    return counted.num_forward, counted.num_backward, report


def affine(x, w, b):
    return torch.tanh(x @ w.mT + b)


def only_float32(function):
    """A kernel for which there is no float64 stage."""

    def call(*inputs):
        if any(x.dtype != torch.float32 for x in inputs):
            raise TypeError("float32 only")
        return function(*inputs)

    return call


ELEMENTWISE = {
    "tanh": torch.tanh,
    "sum of squares": lambda x: (x * x).sum(),
    "softmax": lambda x: torch.softmax(x, -1),
    "relu": torch.relu,
}


class TestAPass:
    @each_type
    @pytest.mark.parametrize("n", SIZES)
    def test_the_gradient_law_alone(self, dtype, n):
        forward, backward, report = cost(
            torch.tanh, normal(n, dtype=dtype), laws={"BP101"}
        )
        calls = report.subjects[0].calls
        assert report.verdict == "pass"
        assert calls["forward"] <= 15
        assert calls["backward"] <= 4
        assert forward == calls["forward"] + calls.get("forward_float64", 0)
        assert backward == calls["backward"] + calls.get("backward_float64", 0)

    @each_type
    @pytest.mark.parametrize("n", SIZES)
    def test_the_referees_laws(self, dtype, n):
        x = normal(n, dtype=dtype)
        forward, backward, report = cost(torch.tanh, x, laws=REFEREE)
        calls = report.subjects[0].calls
        assert report.verdict == "pass"
        assert calls["forward"] <= 25
        assert calls["backward"] <= 10
        assert forward == calls["forward"] + calls.get("forward_float64", 0)
        assert backward == calls["backward"] + calls.get("backward_float64", 0)

    @each_type
    @pytest.mark.parametrize("function", ELEMENTWISE.values(), ids=ELEMENTWISE)
    def test_other_functions(self, dtype, function):
        x = normal(200, dtype=dtype)
        _, _, report = cost(function, x, laws={"BP101"})
        calls = report.subjects[0].calls
        assert calls["forward"] <= 15
        assert calls["backward"] <= 4
        _, _, report = cost(function, x, laws=REFEREE)
        calls = report.subjects[0].calls
        assert calls["forward"] <= 25
        assert calls["backward"] <= 10

    @each_type
    def test_several_inputs_cost_no_more(self, dtype):
        inputs = [normal(*shape, dtype=dtype) for shape in ((30, 8), (5, 8), (5,))]
        _, _, report = cost(affine, *inputs, laws=REFEREE)
        calls = report.subjects[0].calls
        assert report.verdict == "pass"
        assert calls["forward"] <= 25
        assert calls["backward"] <= 10

    @each_type
    @pytest.mark.parametrize("outputs", [2, 5])
    def test_each_output_costs_a_backward_more(self, dtype, outputs):
        def several(x):
            return tuple(torch.sin(k * x) for k in range(1, outputs + 1))

        x = normal(50, dtype=dtype)
        _, _, report = cost(several, x, laws=REFEREE)
        calls = report.subjects[0].calls
        assert report.verdict == "pass"
        assert calls["forward"] <= 25
        assert calls["backward"] <= 10 + outputs

    def test_an_input_too_weak_to_be_seen_costs_six_forwards(self):
        def weak(x, y):
            return torch.sin(20 * x) + 1e-7 * torch.tanh(y)

        _, _, report = cost(weak, normal(50), normal(50, seed=1), laws={"BP101"})
        calls = report.subjects[0].calls
        assert report.verdict == "pass"
        assert 15 < calls["forward"] <= 15 + 6
        assert calls["backward"] <= 4

    def test_the_float64_stage_is_counted_apart(self):
        x = normal(50, dtype=torch.float32)
        _, _, both = cost(torch.tanh, x, laws=REFEREE)
        _, _, alone = cost(only_float32(torch.tanh), x, laws=REFEREE)
        _, _, wide = cost(torch.tanh, normal(50), laws=REFEREE)
        assert both.subjects[0].calls["forward_float64"] <= 15
        assert both.subjects[0].calls["backward_float64"] <= 4
        assert "forward_float64" not in wide.subjects[0].calls
        assert alone.subjects[0].calls["forward"] == both.subjects[0].calls["forward"]

    def test_16_bits_average_where_tensors_are_small(self):
        few, many = (normal(n, dtype=torch.bfloat16) for n in (50, 70_000))
        _, _, small = cost(torch.tanh, few, laws=REFEREE)
        _, _, large = cost(torch.tanh, many, laws=REFEREE)
        assert 25 < small.subjects[0].calls["forward"] <= 110
        assert large.subjects[0].calls["forward"] <= 25
        for report in (small, large):
            assert report.subjects[0].calls["backward"] <= 10

    def test_a_declared_gradient_needs_no_ladder(self):
        counted = Counted(lambda x: x + 0 * torch.round(x))
        report = backproof.check(
            counted.definition,
            normal(50),
            expect_backward=lambda g, x: g,
            laws=REFEREE,
        )
        assert report.verdict == "pass"
        assert counted.num_forward <= 6
        assert counted.num_backward <= 10


class TestAllLaws:
    """All that is asked, sizes and layouts too, costs some 200 calls a differentiable
    input, and as many at 100,000 elements as at ten."""

    @each_type
    @pytest.mark.parametrize("function", ELEMENTWISE.values(), ids=ELEMENTWISE)
    @pytest.mark.parametrize("n", SIZES)
    def test_one_input(self, function, dtype, n):
        forward, backward, report = cost(function, normal(n, dtype=dtype))
        calls = report.subjects[0].calls
        assert report.verdict == "pass"
        assert forward <= 135
        assert backward <= 75
        assert forward == calls["forward"] + calls.get("forward_float64", 0)
        assert backward <= calls["backward"] + calls.get("backward_float64", 0) + 1

    @each_type
    def test_several_inputs(self, dtype):
        inputs = [normal(*shape, dtype=dtype) for shape in ((30, 8), (5, 8), (5,))]
        forward, backward, report = cost(affine, *inputs)
        assert report.verdict == "pass"
        assert forward <= 3 * 135
        assert backward <= 3 * 75


def off_by(scale):
    class Faulty(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return scale * g * torch.cos(x)

    return Faulty


class TestASuspectedFault:
    @each_type
    @pytest.mark.parametrize("scale", [1.1, -1.0, 0.0])
    def test_costs_the_same_at_any_size(self, dtype, scale):
        reports = [
            backproof.check(off_by(scale), normal(n, dtype=dtype), laws=REFEREE)
            for n in (100, 10_000)
        ]
        assert [report.verdict for report in reports] == ["wrong", "wrong"]
        small, large = (dict(report.subjects[0].calls) for report in reports)
        assert small["forward"] == large["forward"]
        for stage in ("", "_float64"):
            assert small.get(f"forward{stage}", 0) <= 100
            assert small.get(f"backward{stage}", 0) <= 3 * 10

    def test_a_backward_that_raises_is_called_once(self):
        calls = []

        class Raises(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x

            @staticmethod
            def backward(ctx, g):
                calls.append(g)
                raise ArithmeticError

        assert backproof.check(Raises, normal(5)).verdict == "crashed"
        assert len(calls) == 1


def test_inputs_times_outputs_are_never_held():
    n = 200_000  # the Jacobian would have 320 GB
    x, w = normal(n), normal(9, seed=1)

    def smooth(x, w):
        return functional.conv1d(x.view(1, 1, -1), w.view(1, 1, -1))

    report = backproof.check(smooth, x, w, laws={"BP101"})
    assert report.verdict == "pass"
