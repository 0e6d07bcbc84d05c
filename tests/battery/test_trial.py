"""A subject on a case: flat float64 vectors in, flat float64 vectors out, all counted."""

import dataclasses
from typing import NamedTuple

import pytest
import torch

from backproof.subject import Case, subject_of
from backproof.trial import BackwardRaised, Refused, Trial
from backproof.trial.random_state import preserved
from tests.battery.subjects import normal


def trial_of(target, *arguments, **keywords):
    trial = Trial(subject_of(target), Case(arguments, keywords))
    trial.graph = trial.record()
    return trial


@pytest.fixture(autouse=True)
def states_are_kept():
    with preserved():
        yield


def ones(trial):
    return torch.ones(trial.outputs[-1].part.stop, dtype=torch.float64)


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@dataclasses.dataclass
class Record:
    mean: torch.Tensor
    parts: list


class TestNames:
    def test_inputs_are_named_as_the_user_would(self):
        def forward(x, parts, state):
            return x.sum() + parts[1].sum() + state["h"].sum()

        trial = trial_of(
            forward,
            normal(2),
            [normal(3, grad=False), normal(3)],
            state={"h": normal(5), "c": 3},
        )
        names = [i.name for i in trial.inputs]
        assert names == ["x", "parts[1]", "state['h']"]

    def test_the_rest_is_numbered(self):
        trial = trial_of(lambda x, *rest: x + rest[1], normal(2), 3, normal(2))
        assert [i.name for i in trial.inputs] == ["x", "rest[1]"]

    def test_a_function_is_named_by_its_forward(self):
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, signal, factor):
                return signal * factor

            @staticmethod
            def backward(ctx, g):
                return 2 * g, None

        assert [i.name for i in trial_of(Scale, normal(3), 2).inputs] == ["signal"]

    def test_parameters_of_a_module_are_inputs(self):
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 2).double()
        layer.bias.requires_grad_(False)
        trial = trial_of(layer, normal(4, 3))
        names = [i.name for i in trial.inputs]
        assert len(names) == 2
        assert names[1] == "weight"

    @pytest.mark.parametrize(
        ("made", "names"),
        [
            (lambda x: x, ["output"]),
            (lambda x: (x, [x * 2]), ["output[0]", "output[1][0]"]),
            (
                lambda x: {"a": x, "b": {"c": x * 2}},
                ["output['a']", "output['b']['c']"],
            ),
            (lambda x: Pair(x, x * 2), ["output.left", "output.right"]),
            (lambda x: Record(x, [x * 2]), ["output.mean", "output.parts[0]"]),
            (lambda x: (None, x, 3, x.detach(), x.argmax()), ["output[1]"]),
        ],
        ids=["tensor", "tuple", "dict", "named tuple", "dataclass", "others beside"],
    )
    def test_outputs_are_named_by_their_place(self, made, names):
        trial = trial_of(lambda x: made(x.sin()), normal(3))
        assert [o.name for o in trial.outputs] == names
        assert trial.outputs[-1].part.stop == 3 * len(names)


class TestForward:
    def test_values_are_flat_and_float64(self):
        x = normal(2, 3, dtype=torch.float32)
        trial = trial_of(lambda x: (x * 2, x.sum()), x)
        (point,) = trial.points
        assert point.values.dtype == torch.float64
        assert point.dtype == torch.float32
        values = trial.forward([point.values])
        assert values.dtype == torch.float64
        expected = torch.cat([2 * x.detach().reshape(-1), x.detach().sum().reshape(1)])
        assert torch.equal(values, expected.double())

    def test_a_complex_number_is_two_reals(self):
        z = torch.tensor([1 + 2j, 3 - 4j], requires_grad=True)
        trial = trial_of(lambda z: 1j * z, z)
        assert trial.points[0].values.tolist() == [1, 2, 3, -4]
        assert trial.points[0].dtype == torch.float32
        assert trial.forward([trial.points[0].values]).tolist() == [-2, 1, 4, 3]

    def test_values_go_through_the_inputs_own_type(self):
        x = torch.ones(1, dtype=torch.bfloat16, requires_grad=True)
        trial = trial_of(lambda x: x * 1, x)
        third = torch.tensor([1 / 3]).double()
        assert trial.forward([third]).tolist() == [
            float(torch.tensor(1 / 3).bfloat16())
        ]

    def test_raising_beside_the_case_is_a_refusal(self):
        def forward(x):
            if float(x.detach().sum()) > 10:
                raise ValueError("too much")
            return x * x

        trial = trial_of(forward, normal(3))
        with pytest.raises(Refused, match="too much"):
            trial.forward([torch.full((3,), 9.0).double()])

    def test_another_form_beside_the_case_is_a_refusal(self):
        trial = trial_of(lambda x: x[x.detach() > 0], torch.ones(3).requires_grad_())
        with pytest.raises(Refused, match="another form"):
            trial.forward([torch.tensor([1.0, -1.0, 1.0]).double()])


class TestBackward:
    def test_gradients_are_flat_and_none_where_there_is_none(self):
        x, y = normal(2, 3), normal(4)
        trial = trial_of(lambda x, y: (x * x).sum(0), x, y)
        cotangent = torch.tensor([1.0, 2, 3]).double()
        gradient, none = trial.pull(trial.graph, cotangent)
        expected = 2 * x.detach() * cotangent
        assert torch.equal(gradient, expected.reshape(-1))
        assert none is None

    def test_a_graph_can_be_pulled_again(self):
        trial = trial_of(torch.exp, normal(4))
        once = trial.pull(trial.graph, ones(trial))
        again = trial.pull(trial.graph, ones(trial))
        assert torch.equal(once[0], again[0])

    def test_gradients_do_not_share_memory(self):
        buffer = torch.empty(3, dtype=torch.float64)

        class Buffered(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x

            @staticmethod
            def backward(ctx, g):
                buffer.copy_(2 * g)
                return buffer

        trial = trial_of(Buffered, normal(3))
        once = trial.pull(trial.graph, ones(trial))
        trial.pull(trial.graph, -ones(trial))
        assert once[0].tolist() == [2.0, 2.0, 2.0]

    def test_one_output_alone(self):
        trial = trial_of(lambda x: (2 * x, 3 * x), normal(2))
        (gradient,) = trial.pull(trial.graph, ones(trial), outputs=[1])
        assert gradient.tolist() == [3.0, 3.0]

    def test_a_complex_gradient_is_two_reals(self):
        z = torch.tensor([1 + 2j], dtype=torch.complex128, requires_grad=True)
        trial = trial_of(lambda z: z * (3 + 4j), z)
        (gradient,) = trial.pull(trial.graph, torch.tensor([1.0, 0.0]).double())
        assert gradient.tolist() == [3.0, -4.0]

    def test_raising_is_said_with_its_cause(self):
        class Raises(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x

            @staticmethod
            def backward(ctx, g):
                raise KeyError("scale")

        trial = trial_of(Raises, normal(3))
        with pytest.raises(BackwardRaised) as caught:
            trial.pull(trial.graph, ones(trial))
        assert isinstance(caught.value.__cause__, KeyError)


class TestCotangents:
    def test_split_gives_each_output_its_shape_and_type(self):
        trial = trial_of(lambda x: (x.sum(), x.float() * 2, x * 1j), normal(2))
        parts = trial.split(torch.arange(7.0).double())
        assert [p.dtype for p in parts] == [
            torch.float64,
            torch.float32,
            torch.complex128,
        ]
        assert parts[0].shape == ()
        assert parts[1].tolist() == [1.0, 2.0]
        assert parts[2].tolist() == [3 + 4j, 5 + 6j]

    def test_represented_is_what_backward_sees(self):
        trial = trial_of(lambda x: (x, x.bfloat16(), x.half()), normal(1))
        third = torch.full((3,), 1 / 3, dtype=torch.float64)
        wanted = [1 / 3] + [
            float(torch.tensor(1 / 3).to(d)) for d in (torch.bfloat16, torch.float16)
        ]
        assert trial.represent(third).tolist() == wanted
        huge = trial.represent(torch.full((3,), 1e300, dtype=torch.float64))
        assert bool(torch.isfinite(huge).all())
        assert huge[2] < 65504

    def test_coarseness_is_relative_to_the_coarsest(self):
        trial = trial_of(lambda x: (x, x.float()), normal(2))
        eps = 2.0**-52
        assert trial.coarseness(eps).tolist() == [1, 1, 2.0**29, 2.0**29]
        assert trial.coarseness(2.0**-23) is None


class TestVariations:
    def test_in_float64_everything_floating_is(self):
        x = normal(3, dtype=torch.float32)
        other = normal(3, dtype=torch.float16, grad=False)
        whole = torch.arange(3)
        seen = []

        def forward(x, other, whole):
            seen.append((x.dtype, other.dtype, whole.dtype))
            return x * other * whole

        trial = trial_of(forward, x, other, whole)
        wide = trial.in_float64()
        wide.record()
        assert seen[-1] == (torch.float64, torch.float64, torch.int64)
        assert trial.wide_calls.forward == 1
        assert torch.equal(wide.points[0].values, x.detach().double())

    def test_in_float64_a_module_is_too(self):
        torch.manual_seed(0)
        layer = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        wide = trial_of(layer, normal(8, 3, dtype=torch.float32)).in_float64()
        graph = wide.record()
        assert graph.tensors[0].dtype == torch.float64
        assert next(layer.parameters()).dtype == torch.float32

    def test_there_is_no_other_float64_where_all_is(self):
        assert trial_of(torch.sin, normal(3)).in_float64() is None

    def test_at_other_values(self):
        trial = trial_of(torch.exp, normal(3))
        moved = trial.at([torch.zeros(3).double()])
        assert moved.record().values.tolist() == [1.0, 1.0, 1.0]
        assert trial.points[0].values.tolist() == normal(3).tolist()

    def test_scalars_are_the_plain_numbers(self):
        trial = trial_of(lambda x, a, flag, name: x * a, normal(2), 0.5, True, "name")
        assert trial.scalars == [0.5]


def test_calls_are_counted_and_announced():
    phases = []
    subject = subject_of(lambda x: x.sin())
    trial = Trial(subject, Case((normal(3),)), on_phase=phases.append)
    graph = trial.record()
    trial.forward([p.values for p in trial.points])
    trial.pull(graph, torch.ones(3).double())
    assert (trial.calls.forward, trial.calls.backward) == (2, 1)
    assert phases == ["forward", "forward", "backward"]
