"""Who shares what: from what ranks saw to the conventions that are left open."""

import torch

from backproof.audit.ranks.communication import connected
from backproof.audit.ranks.convention import Convention, own, possible, shared
from backproof.audit.ranks.observation import apart, sketch
from backproof.audit.ranks.part import Side

BOTH = ((0, 1),)


def side(x, weight, y, cotangent, *, parameter=True):
    """What a rank says of `y = f(x, weight)`, by numbers that stand for tensors."""
    tensors = [torch.full((2,), float(value)) for value in (x, weight)]
    arrived = None if cotangent is None else sketch(torch.tensor(float(cotangent)))
    return Side(
        ("x", "weight"),
        tuple(tensors),
        tuple(sketch(t) for t in tensors),
        (False, parameter),
        ("output",),
        (sketch(torch.tensor(float(y))),),
        (arrived,),
    )


def left_open(one, other, *, known=None, surely=()):
    found = possible([one, other], BOTH, known or {}, frozenset(surely))
    return [str(convention) for convention in found.conventions()]


def test_what_differs_is_own():
    assert left_open(side(1, 2, 3, 4), side(5, 6, 7, 8)) == ["own inputs, summed loss"]


def test_other_cotangents_are_a_summed_loss():
    assert left_open(side(1, 2, 3, 4), side(5, 6, 3, 8)) == ["own inputs, summed loss"]


def test_one_output_and_one_cotangent_may_be_one_loss_or_two():
    expected = ["own inputs, replicated loss", "own inputs, summed loss"]
    assert left_open(side(1, 2, 3, 4), side(5, 6, 3, 4)) == expected
    assert left_open(side(1, 2, 3, None), side(5, 6, 3, None)) == expected


def test_a_parameter_is_own_before_other_inputs_are():
    assert left_open(side(1, 2, 3, 4), side(1, 2, 5, 6)) == [
        "replicated inputs, summed loss",
        "replicated `x`, own `weight`, summed loss",
        "own inputs, summed loss",
    ]


def test_what_is_known_to_be_one_tensor_stays_one():
    found = left_open(side(1, 2, 3, 4), side(1, 2, 5, 6), surely=["x"])
    assert "own inputs, summed loss" not in found
    assert len(found) == 2


def test_what_went_apart_was_one_tensor():
    before = {"x": BOTH}
    found = left_open(side(1, 2, 3, 4), side(7, 6, 5, 6), known=before)
    assert found == [
        "replicated `x`, own `weight`, summed loss",
        "own inputs, summed loss",
    ]


def test_only_ranks_that_communicate_share():
    assert shared(["a", "a", "a", "b"], ((0, 1), (2, 3))) == ((0, 1), (2,), (3,))
    assert own(3) == ((0,), (1,), (2,))


def test_groups_join_the_ranks_that_they_touch():
    assert connected([set()] * 3, 3) == [(0,), (1,), (2,)]
    assert connected([{(0, 1)}, {(1, 2)}, set(), set()], 4) == [(0, 1, 2), (3,)]


def test_two_losses_in_words():
    outputs = {"output[0]": BOTH, "output[1]": own(2)}
    said = str(Convention({"x": BOTH}, outputs))
    assert (
        said
        == "replicated input, loss replicated in `output[0]`, summed in `output[1]`"
    )


def test_sketches_tell_rounding_from_a_difference():
    x = torch.randn(
        1000, dtype=torch.double, generator=torch.Generator().manual_seed(0)
    )
    moved, other = x * (1 + 1e-9), x.clone()
    other[::50] *= 1.5
    assert sketch(x) == sketch(x.clone())
    assert sketch(x).digest != sketch(moved).digest
    assert not apart([sketch(x), sketch(moved)])
    assert apart([sketch(x), sketch(other)])
    assert sketch(torch.ones(3)).constant
    assert not sketch(x).constant
