"""A mask in the user's words."""

import pytest
import torch

from backproof.diagnosis.region import Field, consistent, name_of, span_of, spans_of

GENERATOR = torch.Generator().manual_seed(0)
x = torch.randn(6, 8, generator=GENERATOR, dtype=torch.float64)
keep = torch.rand(6, 8, generator=GENERATOR) > 0.5
index = torch.tensor([0, 2, 2, 5])
HERE = Field("x", (6, 8), x, [("keep", keep), ("index", index)], [("limit", 0.7)])


def at(*where, shape=(6, 8)):
    mask = torch.zeros(shape, dtype=torch.bool)
    mask[where] = True
    return mask


EVERY = slice(None)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (at(EVERY), "everywhere"),
        (at(2, 5), "x[2, 5]"),
        (at(EVERY, slice(3, None)), "x[:, 3:] (columns from 3 on)"),
        (at(-1), "x[-1] (the last row)"),
        (at(0), "x[0] (the first row)"),
        (at(slice(1, None)), "x[1:] (rows after the first)"),
        (at(EVERY, slice(1, None, 2)), "x[:, 1::2] (every second column)"),
        (at(EVERY, slice(0, None, 2)), "x[:, ::2] (every second column)"),
        (at(slice(2, 4), slice(0, 3)), "x[2:4, :3]"),
        (at(EVERY, -1), "x[:, -1] (the last column)"),
        (x <= 0, "where x <= 0"),
        (x > 0, "where x > 0"),
        (x.abs() > 0.7, "where abs(x) > limit"),
        (x > 0.7, "where x > limit"),
        (keep, "where keep"),
        (~keep, "where ~keep"),
        (x == x.amax(1, keepdim=True), "at the maximum of x along axis 1"),
        (torch.ones(6, 8, dtype=torch.bool).triu(1), "above the diagonal of x"),
        (at(2), "x[2]"),
    ],
)
def test_a_mask_gets_its_plainest_name(mask, words):
    assert name_of(mask, HERE).words == words


def test_the_expression_is_the_same_mask_in_python():
    for mask in (at(EVERY, slice(3, None)), x <= 0, x.abs() > 0.7, ~keep):
        region = name_of(mask, HERE)
        names = {"x": x, "keep": keep, "limit": 0.7}
        if region.expression.startswith("x["):
            found = torch.zeros(6, 8, dtype=torch.bool)
            exec(f"x{region.expression[1:]} = True", {"x": found})
        else:
            found = eval(region.expression, {}, names)
        assert torch.equal(found, mask)


def test_a_bound_that_nobody_named_is_found_between_the_values():
    bound = float(x.reshape(-1).sort().values[20:22].mean())
    region = name_of(x > bound, HERE)
    assert region.words.startswith("where x > ")
    assert torch.equal(x > float(region.words.split()[-1]), x > bound)


def test_elements_that_tell_nothing_do_not_count():
    care = x.abs() > 0.1
    mask = (x <= 0) & care
    assert name_of(mask, HERE, care).words == "where x <= 0"
    assert name_of(mask, HERE).words != "where x <= 0"


def test_scattered_elements_are_listed():
    mask = torch.zeros(6, 8, dtype=torch.bool)
    for place in ((0, 1), (3, 4), (5, 0)):
        mask[place] = True
    assert name_of(mask, HERE).words == "x[0, 1], x[3, 4], x[5, 0]"


def test_rows_named_twice_by_an_index():
    table = Field("table", (6, 3), None, [("index", index)])
    words = name_of(at(2, shape=(6, 3)), table).words
    assert words == "table[2]"  # a single row is plainer
    both = at(slice(None), shape=(6, 3))
    both[[1, 3, 4]] = False
    assert name_of(both, table).words == "in rows that index names"


def test_ties_are_named():
    tied = torch.tensor([1.0, 3.0, 3.0, 2.0, 0.5, 1.5])
    here = Field("v", (6,), tied)
    mask = torch.tensor([False, True, True, False, False, False])
    assert name_of(mask, here).words == "v[1:3]"
    far = Field("v", (6,), torch.tensor([3.0, 1.0, 2.0, 3.0, 0.5, 1.5]))
    mask = torch.tensor([True, False, False, True, False, False])
    assert name_of(mask, far).words == "ties of v"


def test_a_scalar_is_everywhere():
    here = Field("s", (), torch.tensor(2.0))
    assert name_of(torch.tensor(True), here).everywhere


def test_two_indices_are_no_pattern():
    assert span_of(torch.tensor([1, 5]), 9) is None
    assert span_of(torch.tensor([1, 4, 7]), 9).step == 3
    assert spans_of(at(0, 0) | at(1, 5) | at(5, 2)) is None


def test_candidates_that_disagree_with_what_is_known_are_left_out():
    first = int((x <= 0).reshape(-1).nonzero()[0])
    last = int((x <= 0).reshape(-1).nonzero()[-1])

    def agrees(mask):
        hit = mask.reshape(-1).nonzero().reshape(-1)
        return hit.numel() and (int(hit[0]), int(hit[-1])) == (first, last)

    found = consistent(HERE, None, agrees)
    assert "where x <= 0" in [region.words for region in found]
    assert "where x > 0" not in [region.words for region in found]
