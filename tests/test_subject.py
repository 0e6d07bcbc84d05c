"""What can be checked becomes a Subject, with a name and a place."""

import functools

import pytest
import torch

from backproof.errors import BadInput
from backproof.subject import Case, subject_of


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor=2, *rest, **options):
        return factor * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g, None


class NewStyle(torch.autograd.Function):
    @staticmethod
    def forward(signal, factor):
        return factor * signal

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return ctx.factor * g, None


class Layer(torch.nn.Module):
    def forward(self, x):
        return x


def plain(x, weight):
    return x * weight


@functools.wraps(plain)
def wrapped(*arguments):
    return plain(*arguments)


TARGETS = {
    "Function": (Twice, "Twice", Twice),
    "apply": (Twice.apply, "Twice", Twice),
    "function": (plain, "plain", None),
    "partial": (functools.partial(plain, weight=2), "plain", None),
    "nested partial": (functools.partial(functools.partial(plain), 2), "plain", None),
    "partial of apply": (functools.partial(Twice.apply, factor=2), "apply", None),
    "module": (Layer(), "Layer", None),
    "module class": (Layer, "Layer", None),
    "builtin": (torch.tanh, "tanh", None),
    "object": (type("Op", (), {"__call__": lambda self, x: x})(), "Op", None),
}


@pytest.mark.parametrize(
    ("target", "name", "definition"), TARGETS.values(), ids=TARGETS
)
def test_names_and_definitions(target, name, definition):
    subject = subject_of(target)
    assert subject.name == name
    assert subject.definition is definition
    assert callable(subject.function)


def test_a_given_name_holds():
    assert subject_of(plain, name="mine").name == "mine"


@pytest.mark.parametrize(
    "target",
    [Twice, Twice.apply, plain, Layer(), wrapped],
    ids=["Function", "apply", "function", "module", "wrapped"],
)
def test_the_place_is_that_of_the_definition(target):
    where = subject_of(target).where
    assert where.file == __file__
    assert where.line > 1


def test_there_is_no_place_where_there_is_no_source():
    assert subject_of(torch.tanh).where is None


def test_a_module_class_is_built_once():
    subject = subject_of(Layer)
    assert isinstance(subject.module, Layer)
    assert subject.function is subject.module


@pytest.mark.parametrize(
    ("target", "names"),
    [
        (plain, ["x", "weight"]),
        (Twice, ["x", "factor", "*rest"]),
        (Twice.apply, ["x", "factor", "*rest"]),
        (NewStyle, ["signal", "factor"]),
        (lambda *tensors: tensors, ["*tensors"]),
        (torch.tanh, ["*args"]),
    ],
    ids=["function", "Function", "apply", "setup_context", "any number", "builtin"],
)
def test_parameters_are_named_without_ctx(target, names):
    assert subject_of(target).parameter_names() == names


def test_what_is_declared():
    assert not subject_of(plain).declared
    assert subject_of(plain, expect=torch.tanh).declared
    assert subject_of(plain, expect_backward=lambda g, x: g).declared


def test_a_reference_and_noise_are_kept():
    subject = subject_of(plain, reference=torch.mul, noise=1e-6)
    assert (subject.reference, subject.noise) == (torch.mul, 1e-6)
    assert (subject_of(plain).reference, subject_of(plain).noise) == (None, 0.0)


@pytest.mark.parametrize("noise", [-1e-6, float("nan"), float("inf"), "little", None])
def test_noise_is_a_relative_distance(noise):
    with pytest.raises(BadInput, match="noise is the relative distance") as caught:
        subject_of(plain, noise=noise)
    assert repr(noise) in str(caught.value)


class TestOperators:
    MUL = torch.ops.aten.mul.Tensor

    def test_an_overload(self):
        subject = subject_of(self.MUL)
        assert (subject.name, subject.operator) == ("aten::mul.Tensor", self.MUL)
        assert subject.parameter_names() == ["self", "other"]
        assert subject.where is None

    def test_a_packet_with_one_overload_is_that(self):
        namespace = torch.library.Library("backprooftests_single", "DEF")
        namespace.define("only(Tensor x, *, int k=1) -> Tensor")
        packet = torch.ops.backprooftests_single.only
        subject = subject_of(packet)
        assert subject.operator is packet.default
        assert subject.name == "backprooftests_single::only"
        assert subject.parameter_names() == ["x"]

    def test_a_packet_with_several_names_them(self):
        with pytest.raises(BadInput, match=r"such as torch\.ops\.aten\.mul\.Tensor: "):
            subject_of(torch.ops.aten.mul)

    def test_a_function_that_calls_one_is_none(self):
        assert subject_of(lambda x: self.MUL(x, x)).operator is None


@pytest.mark.parametrize("target", [3, "plain", None, [plain]])
def test_what_cannot_be_called_is_refused(target):
    with pytest.raises(BadInput, match="cannot check"):
        subject_of(target)


def test_a_module_class_that_needs_arguments_is_refused():
    with pytest.raises(BadInput, match=r"Linear\(\.\.\.\)"):
        subject_of(torch.nn.Linear)


def test_a_case_can_be_made_of_arguments_alone():
    case = Case((1, 2))
    assert (case.keywords, case.domains, case.label) == ({}, {}, "inputs")
    with pytest.raises(AttributeError):
        case.label = "another"
