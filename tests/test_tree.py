"""Arguments and outputs as trees of leaves with names."""

import dataclasses
from collections import OrderedDict, defaultdict
from typing import NamedTuple

import pytest

from backproof import tree


class Pair(NamedTuple):
    left: object
    right: object


@dataclasses.dataclass
class Record:
    mean: object
    parts: list
    made: int = dataclasses.field(default=0, init=False)

    def __post_init__(self):
        self.made += 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    value: object


@dataclasses.dataclass(slots=True)
class Slotted:
    value: object


class Plain:
    pass


def listed(value):
    return list(tree.leaves(value, "x"))


THING = Plain()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, [("x", 1)]),
        (None, [("x", None)]),
        ("word", [("x", "word")]),
        ([], []),
        ((1, [2, (3,)]), [("x[0]", 1), ("x[1][0]", 2), ("x[1][1][0]", 3)]),
        ({"h": 1, 2: {"c": 3}}, [("x['h']", 1), ("x[2]['c']", 3)]),
        (Pair(1, [2]), [("x.left", 1), ("x.right[0]", 2)]),
        (
            Record(1, [2, 3]),
            [("x.mean", 1), ("x.parts[0]", 2), ("x.parts[1]", 3), ("x.made", 1)],
        ),
        (Frozen({"a": 1}), [("x.value['a']", 1)]),
        (Slotted(1), [("x.value", 1)]),
        (THING, [("x", THING)]),
        (Record, [("x", Record)]),
        ({1, 2}, [("x", {1, 2})]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_leaves_have_the_names_that_a_user_would_write(value, expected):
    assert listed(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        5,
        (1, [2, (3,)]),
        {"h": 1, "c": [2, 3]},
        OrderedDict(b=1, a=2),
        Pair(1, [2, 3]),
        Record(1, [2, 3]),
        Frozen((1, 2)),
        Slotted([1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_tree_is_rebuilt_in_its_form(value):
    leaves = [leaf for _, leaf in tree.leaves(value, "x")]
    built = tree.rebuild(value, iter(leaves))
    assert type(built) is type(value)
    assert built == value
    other = tree.rebuild(value, iter([-1] * len(leaves)))
    assert {leaf for _, leaf in tree.leaves(other, "x")} == {-1}
    assert [leaf for _, leaf in tree.leaves(value, "x")] == leaves  # as it was


def test_containers_are_built_anew():
    value = {"parts": [1, 2], "record": Record(1, [2])}
    built = tree.rebuild(value, iter([1, 2, 1, 2, 1]))
    assert built is not value
    assert built["parts"] is not value["parts"]
    assert built["record"] is not value["record"]
    assert built["record"].parts is not value["record"].parts


def test_a_record_is_not_initialised_again():
    record = Record(1, [2])
    assert tree.rebuild(record, iter([5, 6, record.made])).made == 1


def test_a_default_is_kept():
    value = defaultdict(list, a=1)
    built = tree.rebuild(value, iter([2]))
    assert built == {"a": 2}
    assert built["new"] == []


def test_attributes_beside_the_fields_stay():
    record = Record(1, [2])
    record.note = "seen"
    assert tree.rebuild(record, iter([1, 2, 1])).note == "seen"
