"""Where an input may go."""

import math

import pytest

from backproof.probe import ANYWHERE, Domain


def test_anywhere_is_no_bound_and_no_structure():
    assert Domain(-math.inf, math.inf, None) == ANYWHERE
    assert Domain(low=0.0) != ANYWHERE
    assert Domain(structure="sym") != ANYWHERE


def test_it_can_be_a_key_and_not_be_changed():
    assert len({Domain(), Domain(), Domain(0.0)}) == 2
    with pytest.raises(AttributeError):
        ANYWHERE.low = 0.0
