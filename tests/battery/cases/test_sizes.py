"""Equal dimensions move together; what something else holds stays."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backproof.battery.cases import sizes
from backproof.probe import Domain
from tests.battery.cases.trials import tensors_of, trial_of
from tests.battery.subjects import normal

x, w = normal(4, 3), normal(3, 5, seed=1)


def all_sizes(target, *arguments, **options):
    trial = trial_of(target, *arguments, **options)
    trial.record()
    return list(sizes(trial, trial.outputs))


def shapes_of(resized):
    return [tuple(t.shape) for t in tensors_of(resized.trial)]


def by_words(found):
    return {r.words: r for r in found}


def test_equal_dimensions_move_together():
    found = by_words(all_sizes(torch.matmul, x, w))
    assert shapes_of(found["dimension 3 -> 1"]) == [(4, 1), (1, 5)]
    assert shapes_of(found["dimension 4 -> 5"]) == [(5, 3), (3, 5)]
    assert shapes_of(found["dimension 5 -> 1025"]) == [(4, 3), (3, 1025)]
    assert shapes_of(found["every dimension -> 4"]) == [(4, 4), (4, 4)]


def test_each_length_is_one_more_one_and_long():
    words = set(by_words(all_sizes(torch.matmul, x, w)))
    for n in (3, 4, 5):
        assert {f"dimension {n} -> {m}" for m in (1, n + 1, 1025)} <= words


def test_only_a_batch_may_be_empty():
    empty = [r.words for r in all_sizes(torch.matmul, x, w) if r.empty]
    assert empty == ["dimension 4 -> 0"]  # no output begins with 3 or 5
    for resized in all_sizes(torch.matmul, x, w):
        no_elements = any(t.numel() == 0 for t in tensors_of(resized.trial))
        assert resized.empty is no_elements


def test_lengths_that_a_number_holds_stay():
    found = all_sizes(lambda x, n: x.reshape(n, -1), x, 4)
    assert found
    assert all(shape[0][0] == 4 for shape in map(shapes_of, found))


def test_lengths_that_a_module_holds_stay():
    layer = torch.nn.Linear(3, 5).double()
    found = all_sizes(layer, normal(4, 3))
    assert {shapes_of(r)[0][1] for r in found} == {3}
    assert {shapes_of(r)[0][0] for r in found} >= {0, 1, 5}
    assert all(shapes_of(r)[1:] == [(5, 3), (5,)] for r in found)


captured = normal(3, grad=False)


def test_lengths_that_a_captured_tensor_holds_stay():
    found = all_sizes(lambda x: x * captured, x)
    assert {shapes_of(r)[0][1] for r in found} == {3}


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
    low=st.floats(-2, 2),
)
def test_new_values_lie_between_those_that_were_there(shape, dtype, low):
    tensor = (low + torch.rand(shape, dtype=torch.float64)).to(dtype).requires_grad_()
    for resized in all_sizes(torch.square, tensor):
        (new,) = tensors_of(resized.trial)
        assert new.dtype == dtype
        assert new.requires_grad
        assert new.is_leaf
        if new.numel():
            assert float(new.detach().min()) >= float(tensor.detach().min())
            assert float(new.detach().max()) <= float(tensor.detach().max())


def test_indices_stay_in_range():
    table, at = normal(7, 3), torch.tensor([0, 6, 3, 3, 5])
    found = all_sizes(lambda table, at: table[at], table, at)
    assert {shapes_of(r)[0][0] for r in found} >= {1, 8, 1025}
    for resized in found:
        rows, indices = tensors_of(resized.trial)
        assert indices.dtype == torch.int64
        if indices.numel():
            assert int(indices.min()) >= 0
            assert int(indices.max()) < len(rows)


def test_masks_stay_masks():
    mask = torch.tensor([True, False, True, True])
    for resized in all_sizes(lambda x, m: x * m[:, None], x, mask):
        assert tensors_of(resized.trial)[1].dtype == torch.bool


def test_complex_inputs_stay_complex():
    z = torch.randn(4, dtype=torch.complex64, requires_grad=True)
    for resized in all_sizes(torch.square, z):
        assert tensors_of(resized.trial)[0].dtype == torch.complex64


def test_the_same_seed_draws_the_same():
    first, second = (all_sizes(torch.square, x) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert torch.equal(tensors_of(one.trial)[0], tensors_of(other.trial)[0])


def test_large_tensors_do_not_grow_out_of_hand():
    found = all_sizes(torch.square, normal(400, 500))
    assert all(t.numel() <= 2**18 for r in found for t in tensors_of(r.trial))
    assert len(found) >= 4


def test_a_structure_that_new_values_would_not_have_is_left():
    matrix = torch.eye(3, dtype=torch.float64, requires_grad=True)
    domain = Domain(structure="sym")
    assert all_sizes(lambda m: m @ m, matrix, domains={"m": domain}) == []


def test_the_callers_tensors_keep_their_form():
    all_sizes(torch.matmul, x, w)
    assert x.shape == (4, 3)
    assert torch.equal(x, normal(4, 3))


@pytest.mark.parametrize("words", ["dimension 4 -> 1", "dimension 4 -> 1025"])
def test_what_changes_the_order_of_lengths_is_not_near(words):
    found = by_words(all_sizes(torch.matmul, x, w))
    assert not found[words].near
    assert found["dimension 3 -> 1"].near
