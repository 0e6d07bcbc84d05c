"""Where in a file something happens, found from a subject and its tensors."""

import pytest
import torch

from backproof.battery.observed import address, last_write, operations_of
from backproof.battery.place import Places, attributes_holding, called_at
from backproof.subject import Case, subject_of
from backproof.trial import BackwardRaised, Trial
from backproof.trial.custom_nodes import custom_nodes
from tests.battery.subjects import normal


class Weigh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, power=2):
        ctx.save_for_backward(x, w)
        ctx.kept = x
        ctx.power = power
        return x * w

    @staticmethod
    def backward(ctx, grad_output):
        x, w = ctx.saved_tensors
        if x.dim() > 3:
            return None, None, None
        grad_x = grad_output * w
        return grad_x, grad_output * x, None


class Overwrites(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        torch.manual_seed(0)
        return 2 * x

    @staticmethod
    def backward(ctx, grad_output):
        noise = torch.rand_like(grad_output)
        grad_output.mul_(2)
        return grad_output + 0 * noise


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad_output):
        return helper(grad_output)


def helper(g):
    raise ValueError("no")


def swapped(b, a):
    return Weigh.apply(a, b.clone()).sin()


def doubled_up(a, b):
    return Weigh.apply(a, a) + b


def trial(target, *arguments):
    made = Trial(subject_of(target), Case(arguments))
    made.record()
    return made


def both():
    return normal(3), normal(3, seed=1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x", "grad_x = grad_output * w"),
        ("w", "return grad_x, grad_output * x, None"),
    ],
)
def test_the_gradient_of_an_input(name, text):
    found = Places(trial(Weigh, *both())).gradient(name)
    assert (found.file, found.text) == (__file__, text)


def test_an_input_of_something_around_the_function():
    places = Places(trial(swapped, *both()))
    assert places.definition is Weigh
    assert places.gradient("a").text == "grad_x = grad_output * w"
    assert places.gradient("b").text == "return grad_x, grad_output * x, None"


def test_an_input_without_a_place_of_its_own_gets_the_return():
    places = Places(trial(doubled_up, *both()))
    for name in "ab":
        assert places.gradient(name).text == "return grad_x, grad_output * x, None"


def test_torch_code_has_no_place():
    places = Places(trial(torch.mul, *both()))
    assert places.gradient("input") is None
    assert places.forward == ()
    assert places.returned() is places.forward_return() is places.jvp_return() is None


def test_names_and_places_of_what_is_kept():
    made = trial(Weigh, *both())
    places, graph = Places(made), made.record()
    assert places.cotangent_name() == "grad_output"
    assert (places.saved_name(1), places.saved_name(2)) == ("w", "")
    assert places.saved("w").text == "ctx.save_for_backward(x, w)"
    (node,) = custom_nodes(graph)
    (kept,) = attributes_holding(node, graph.handed[0])
    assert (kept, places.kept_as(kept)) == ("kept", "x")
    assert places.attribute(kept).text == "ctx.kept = x"
    assert places.mention("power").text == "ctx.power = power"


def test_what_raises():
    made = trial(Raises, normal(3))
    with pytest.raises(BackwardRaised) as caught:
        made.pull_tensors(made.record(), [torch.ones(3).double()])
    found = Places(made).raised(caught.value)
    assert found.text == "return helper(grad_output)"


def test_operations_and_their_lines():
    made = trial(Overwrites, normal(3))
    places, graph = Places(made), made.record()
    cotangent = torch.ones(3).double()
    seen = operations_of(
        lambda: made.pull_tensors(graph, [cotangent]), [places.backward]
    )
    written = last_write(seen, address(cotangent))
    assert (written.name, written.where.text) == ("mul_", "grad_output.mul_(2)")
    (drawn,) = (one for one in seen if one.random)
    assert drawn.where.text == "noise = torch.rand_like(grad_output)"
    assert last_write(seen, address(normal(3))) is None


def test_calls_by_their_last_name():
    places = Places(trial(Overwrites, normal(3)))
    assert called_at(places.forward, {"manual_seed"}).text == "torch.manual_seed(0)"
    assert called_at(places.forward, {"set_num_threads"}) is None
