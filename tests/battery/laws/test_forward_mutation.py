"""BP201: forward changes what it was handed only where autograd knows."""

import numpy as np
import torch

from tests.battery.laws.asking import BROKEN, HELD, asked, each, function, outcome
from tests.battery.subjects import normal

x, other = normal(5), normal(5, seed=1, grad=False)


def tripled(forward):
    return function(forward, lambda ctx, g, *_: (3 * g, None))


def writes_to_the_input(ctx, x, other):
    return x.mul_(3).clone()


def writes_behind_the_counter(ctx, x, other):
    x.data.mul_(3)
    return x.clone()


def writes_to_what_it_reads(ctx, x, other):
    other.add_(1)
    return 3 * x + other


def writes_through_numpy(ctx, x, other):
    x.numpy()[0] = 7.0
    return 3 * x


def changes_an_array(x, array):
    array[0] += 1
    return 3 * x * float(array[0])


in_place = function(lambda ctx, x: x.mul_(3), lambda ctx, g: 3 * g)


def writes_to_a_tensor_inside(x, other):
    return in_place.apply(x.sin()) + other


FAULTS = {
    "in place": (tripled(writes_to_the_input), "changes its input `x`"),
    "through .data": (tripled(writes_behind_the_counter), "changes its input `x`"),
    "through NumPy": (tripled(writes_through_numpy), "changes its input `x`"),
    "a constant": (tripled(writes_to_what_it_reads), "changes its input `other`"),
    "inside": (writes_to_a_tensor_inside, "a tensor in place that autograd tracks"),
}


@each(FAULTS)
def test_it_is_broken(made):
    target, first_line = made
    status, words = asked("BP201", target, x, other)
    assert status is BROKEN
    assert first_line in words.splitlines()[0]
    assert torch.equal(other, normal(5, seed=1, grad=False))
    assert torch.equal(x, normal(5))


def test_an_array_is_an_argument_too():
    status, words = asked("BP201", changes_an_array, x, np.ones(2))
    assert status is BROKEN
    assert "`array`, a ndarray" in words


def marked(ctx, x, other):
    ctx.mark_dirty(x)
    return x.mul_(3)


def writes_an_average(ctx, x, average):
    average.mul_(0.9).add_(0.1 * x)
    return 3 * x


def writes_and_puts_back(ctx, x, other):
    kept = x.clone()
    y = x.mul_(3).clone()
    x.copy_(kept)
    return y


def of_its_own(ctx, x, other):
    return x.clone().mul_(3)


RIGHT = {
    "marked dirty": tripled(marked),
    "a running average": tripled(writes_an_average),
    "put back": tripled(writes_and_puts_back),
    "a copy": tripled(of_its_own),
    "recorded by autograd": lambda x, other: (x.sin().mul_(2) + other).exp_(),
    "a generator": lambda x, other: x * torch.rand(5, generator=generator),
}
generator = torch.Generator()


@each(RIGHT)
def test_it_holds(made):
    assert asked("BP201", made, x, other)[0] is HELD


def test_what_is_marked_and_returned_is_said_to_be():
    told = {e.words for e in outcome("BP201", tripled(marked), x, other).evidence}
    assert "forward works in place on `x` and returns it" in told


def test_a_generator_that_is_handed_over_may_be_moved():
    def forward(x, generator):
        return x * torch.rand(5, generator=generator, dtype=x.dtype)

    assert asked("BP201", forward, x, torch.Generator())[0] is HELD


def test_the_numbers_name_the_input_or_the_operation():
    (evidence,) = outcome("BP201", tripled(writes_to_the_input), x, other).evidence
    assert evidence.numbers == {"input": "x"}
    (evidence,) = outcome("BP201", writes_to_a_tensor_inside, x, other).evidence
    assert "mul_" in evidence.numbers["operation"]


def test_not_a_number_is_no_change():
    a = torch.tensor([1.0, float("nan")]).double().requires_grad_()
    assert asked("BP201", torch.sin, a)[0] is HELD
