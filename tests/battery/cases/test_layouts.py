"""The same values, with the strides, offsets and bits that a layout says."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backproof.battery.cases import FORMS, layouts
from tests.battery.cases.trials import tensors_of, trial_of
from tests.battery.subjects import normal

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.complex64)
shapes = st.lists(st.integers(0, 5), max_size=5).map(tuple)


def filled(shape, dtype=torch.float64):
    whole = torch.arange(1, 1 + math.prod(shape), dtype=torch.float64)
    return whole.reshape(shape).to(dtype)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(
    shape=shapes,
    dtype=st.sampled_from([*DTYPES, torch.int64, torch.bool]),
    label=st.sampled_from(sorted(FORMS)),
)
def test_a_form_keeps_values_shape_and_type(shape, dtype, label):
    tensor = filled(shape, dtype)
    kept = tensor.clone()
    other = FORMS[label](tensor)
    assert torch.equal(tensor, kept)
    if other is None:
        return
    assert other.shape == tensor.shape
    assert other.dtype == tensor.dtype
    assert torch.equal(other, tensor)
    if tensor.numel():
        assert other.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()
    bits = (other.is_neg(), other.is_conj())
    assert (other.stride(), other.storage_offset(), *bits) != (
        tensor.stride(),
        tensor.storage_offset(),
        False,
        False,
    )


STRIDES = {
    "transposed": ((3, 4), (1, 3), 0),
    "sliced with an offset": ((3, 4), (8, 2), 1),
    "with padded rows": ((3, 4), (7, 1), 2),
    "in channels_last": ((2, 3, 4, 5), (60, 1, 15, 3), 0),
}


@pytest.mark.parametrize("label", STRIDES)
def test_the_strides_are_those_of_its_name(label):
    shape, strides, offset = STRIDES[label]
    other = FORMS[label](filled(shape))
    assert other.stride() == strides
    assert other.storage_offset() == offset


def test_a_slice_has_other_numbers_beside_it():
    other = FORMS["sliced with an offset"](filled((2, 3)))
    whole = other.as_strided((12,), (1,), 0)
    assert not torch.isin(whole[::2], other).any()


def test_indices_beside_a_slice_are_indices():
    at = torch.tensor([2, 0, 1])
    other = FORMS["sliced with an offset"](at)
    assert set(other.as_strided((6,), (1,), 0).tolist()) <= {0, 1, 2}


def test_bits_are_lazy():
    assert FORMS["as a negative view"](filled((3,))).is_neg()
    z = torch.randn(3, dtype=torch.complex128)
    assert FORMS["as a conjugate view"](z).is_conj()
    assert torch.equal(FORMS["as a conjugate view"](z), z)


NONE = {
    "transposed": filled((1, 4)),
    "with padded rows": filled((4,)),
    "in channels_last": filled((3, 4)),
    "as a negative view": torch.arange(3),
    "as a conjugate view": filled((3,)),
    "sliced with an offset": filled((0, 3)),
}


@pytest.mark.parametrize("label", NONE)
def test_a_form_that_does_not_exist_is_none(label):
    assert FORMS[label](NONE[label]) is None


class TestLayouts:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_values_and_needs_are_kept(self, dtype):
        a = filled((3, 4), dtype).requires_grad_()
        b = filled((2, 3, 4, 4), dtype).requires_grad_()
        at = torch.tensor([[1, 0], [2, 1]])
        trial = trial_of(lambda a, b, at: a.sum() + b.sum(), a, b, at)
        seen = list(layouts(trial))
        assert len(seen) > 8
        for variant in seen:
            plain = tensors_of(variant.plain or trial)
            for new, old in zip(tensors_of(variant.trial), plain, strict=True):
                assert torch.equal(new.detach(), old.detach())
                assert new.requires_grad is old.requires_grad
                assert new.is_leaf

    def test_together_first_and_then_alone(self):
        trial = trial_of(lambda a, b: a + b, normal(3, 4), normal(3, 4, seed=1))
        words = [v.words for v in layouts(trial) if v.label == "transposed"]
        assert words == ["`a`, `b` transposed", "`a` transposed", "`b` transposed"]

    def test_more_than_four_tensors_only_together(self):
        trial = trial_of(lambda *t: sum(t), *(normal(3, 4, seed=k) for k in range(5)))
        labels = [v.label for v in layouts(trial)]
        assert labels.count("transposed") == 1
        assert labels.count("expanded") == 5

    def test_an_expanded_input_is_compared_with_its_rows_in_full(self):
        x = normal(3, 4)
        (variant,) = [v for v in layouts(trial_of(torch.sin, x)) if v.plain]
        (repeated,), (full,) = tensors_of(variant.trial), tensors_of(variant.plain)
        assert repeated.stride() == (0, 1)
        assert full.is_contiguous()
        assert torch.equal(repeated, x[:1].expand(3, 4))
        assert torch.equal(repeated, full)

    def test_one_that_overlaps_itself_stays(self):
        other = normal(4, grad=False).expand(3, 4)
        trial = trial_of(torch.mul, normal(3, 4), other)
        for variant in layouts(trial):
            assert tensors_of(variant.trial)[1].stride() == (0, 1)

    def test_parameters_of_a_module_stay(self):
        layer = torch.nn.Linear(4, 3).double()
        trial = trial_of(layer, normal(2, 4))
        for variant in layouts(trial):
            weight, bias = tensors_of(variant.trial)[1:]
            assert weight is layer.weight
            assert bias is layer.bias
