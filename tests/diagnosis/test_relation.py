"""Two gradients that should be equal: what is the one beside the other?"""

import math

import pytest
import torch

from backproof.diagnosis.relation import is_plain, number, relation_of

RIGHT = torch.tensor([1.0, -2.0, 0.5, 3.0]).double()
OTHER = torch.tensor([0.3, 1.0, -4.0, 2.0]).double()

RELATIONS = {
    "zero": 0 * RIGHT,
    "nan": math.nan * RIGHT,
    "infinite": math.inf * RIGHT.abs(),
    "of the opposite sign": -RIGHT,
    "2 times as large": 2 * RIGHT,
    "1/3 times as large": RIGHT / 3,
    "-4 times as large": -4 * RIGHT,
    "0.7 times as large": 0.7 * RIGHT,
    "in another order": RIGHT.flip(0),
    "": OTHER,
}


@pytest.mark.parametrize("words", RELATIONS)
def test_plain_relations(words):
    assert relation_of(RELATIONS[words], RIGHT) == words


def test_some_nan_is_said_to_be_some():
    assert relation_of(torch.tensor([math.nan, 1.0]), RIGHT[:2]) == "nan or inf"


def test_beside_zero():
    assert relation_of(RIGHT, 0 * RIGHT) == "not zero"


def test_one_element_has_every_ratio():
    assert relation_of(2 * RIGHT[:1], RIGHT[:1]) == ""


def test_almost_a_multiple_is_none():
    off = 2 * RIGHT
    off[1] += 1e-3
    assert relation_of(off, RIGHT) == ""


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (0.0, "0"),
        (2.0, "2"),
        (0.25, "1/4"),
        (-1 / 3, "-1/3"),
        (0.7, "0.7"),
        (1234.5, "1.23e+03"),
    ],
)
def test_numbers(value, name):
    assert number(value) == name
    assert is_plain(name) == (value in (0.0, 2.0, 0.25, -1 / 3))
