"""Pairs of inputs that could be one tensor."""

import torch

from backproof.battery.cases import twins
from backproof.probe import Domain
from tests.battery.cases.trials import tensors_of, trial_of
from tests.battery.subjects import normal


def summed(*tensors):
    return sum(t.sum() for t in tensors)


def pairs(*tensors, **options):
    return [(t.first, t.second) for t in twins(trial_of(summed, *tensors, **options))]


def test_every_pair_of_one_shape_and_type():
    a, b, c = (normal(3, seed=k) for k in range(3))
    assert pairs(a, b, c) == [(0, 1), (0, 2), (1, 2)]


def test_up_to_four():
    assert len(pairs(*(normal(3, seed=k) for k in range(6)))) == 4


def test_shape_type_and_need_must_be_the_same():
    x = normal(3)
    assert pairs(x, normal(4)) == []
    assert pairs(x, normal(3, dtype=torch.float32)) == []
    assert pairs(x, normal(3, grad=False)) == []


def test_numbers_count_differentiable_inputs():
    assert pairs(normal(3), normal(3, grad=False), normal(3, seed=1)) == [(0, 1)]


def test_the_domain_must_be_the_same():
    def named(a, b):
        return a + b

    a, b = normal(3).detach().abs().requires_grad_(), normal(3, seed=1)
    trial = trial_of(named, a, b, domains={"a": Domain(low=0.0)})
    assert list(twins(trial)) == []


def test_both_hold_the_values_of_the_first_in_memory_of_their_own():
    a, b, c = normal(3), normal(3, seed=1), normal(4, seed=2)
    (pair,) = twins(trial_of(summed, a, b, c))
    first, second, third = tensors_of(pair.equal)
    assert torch.equal(first, a)
    assert torch.equal(second, a)
    assert second.data_ptr() != first.data_ptr()
    assert second.requires_grad
    assert second.is_leaf
    assert third is c
    assert torch.equal(b, normal(3, seed=1))
