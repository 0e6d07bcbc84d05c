"""Every proper subset of the inputs once; a sample of many."""

import itertools

import pytest
import torch

from backproof.battery.cases import subsets
from tests.battery.cases.trials import tensors_of, trial_of
from tests.battery.subjects import normal


def summed(*tensors):
    return sum(tensors)


def trial_with(count):
    return trial_of(summed, *(normal(3, seed=k) for k in range(count)))


def chosen(variant):
    return tuple(k for k, t in enumerate(tensors_of(variant.trial)) if t.requires_grad)


@pytest.mark.parametrize("count", range(1, 6))
def test_each_proper_subset_once(count):
    found = [chosen(v) for v in subsets(trial_with(count))]
    expected = [
        c for n in range(1, count) for c in itertools.combinations(range(count), n)
    ]
    assert sorted(found) == sorted(expected)
    assert len(found) == 2**count - 2


@pytest.mark.parametrize("count", [6, 9])
def test_of_many_each_alone_each_left_out_and_some_pairs(count):
    found = {chosen(v) for v in subsets(trial_with(count))}
    assert {(k,) for k in range(count)} <= found
    left_out = {tuple(n for n in range(count) if n != k) for k in range(count)}
    assert left_out <= found
    pairs = found - left_out - {(k,) for k in range(count)}
    assert 5 <= len(pairs) <= 10
    assert all(len(pair) == 2 for pair in pairs)


def test_values_stay_and_so_do_the_users_needs():
    trial = trial_with(3)
    kept = [t.detach().clone() for t in tensors_of(trial)]
    for variant in subsets(trial):
        for new, old in zip(tensors_of(variant.trial), kept, strict=True):
            assert torch.equal(new.detach(), old)
    assert all(t.requires_grad for t in tensors_of(trial))


def test_a_tensor_without_a_gradient_never_gets_one():
    trial = trial_of(summed, normal(3), normal(3, grad=False), normal(3, seed=1))
    assert sorted(chosen(v) for v in subsets(trial)) == [(0,), (2,)]


def test_parameters_are_inputs_too():
    trial = trial_of(torch.nn.Linear(4, 3).double(), normal(2, 4))
    labels = [v.label for v in subsets(trial)]
    assert len(labels) == 6
    assert "weight, bias" in labels
    words = {v.label: v.words for v in subsets(trial)}
    assert words["bias"] == "only bias needs a gradient"
    assert words["weight, bias"] == "only weight, bias need a gradient"
